//go:build linux && kernel

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/ipam"
)

// withRemotePods is a node, and a State with so many pods on another node.
func withRemotePods(b *testing.B, many int) (*node, dataplane.State) {
	b.Helper()
	c := newCluster(b, 1)
	n := c.nodes[0]
	blue := c.network("blue", 1001, "192.0.0.0/8")
	n.attach(n.pod("a", blue, "192.0.0.2"))
	n.sync()
	c.state.Nodes = append(c.state.Nodes, dataplane.Node{Name: "far", Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.9")}})
	for i := range many {
		ip := netip.AddrFrom4([4]byte{192, 1, byte(i >> 8), byte(i)})
		mac, err := dataplane.ParseMAC(ipam.MAC(ip))
		must(b, err)
		c.state.Pods = append(c.state.Pods, dataplane.Pod{Namespace: "default", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Node: "far",
			Attachments: []dataplane.Attachment{{Network: "blue", IP: ip, MAC: mac}}})
	}
	s := c.state
	s.Node, s.Ports = n.name, n.ports
	return n, s
}

// decideFrom a state and the kernel's observed state.
func (n *node) decideFrom(s dataplane.State) dataplane.Plan {
	n.Helper()
	var err error
	s.Host, err = n.kernel.Read()
	must(n, err)
	want, _, _ := dataplane.Want(s)
	return dataplane.Diff(s.Host, want)
}

// moment in time, with the CPU time that this process has used.
type moment struct {
	wall time.Time
	cpu  time.Duration
}

func now() moment {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	return moment{time.Now(), time.Duration(r.Utime.Nano() + r.Stime.Nano())}
}

// laps of the runs of a benchmark, by their names.
type laps map[string][]time.Duration

func (l laps) add(what string, since moment) moment {
	l[what] = append(l[what], time.Since(since.wall))
	l[what+"-cpu"] = append(l[what+"-cpu"], now().cpu-since.cpu)
	return now()
}

// report the medians.
func (l laps) report(b *testing.B) {
	for what, all := range l {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, what+"-ms")
	}
}

// BenchmarkRemotePods measures the cost of so many pods of other nodes: to program them on
// a node that has none, and to find that nothing is left to do.
func BenchmarkRemotePods(b *testing.B) {
	for _, many := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			l := laps{}
			for range b.N {
				n, s := withRemotePods(b, many)
				plan := n.decideFrom(s)
				start := now()
				if _, err := n.kernel.Perform(plan); err != nil {
					b.Fatal(err)
				}
				start = l.add("apply", start)
				if plan := n.decideFrom(s); len(plan) > 0 {
					b.Fatalf("%d steps are left", len(plan))
				}
				start = l.add("resync", start)
				_, err := n.kernel.Read()
				must(b, err)
				l.add("read", start)
			}
			l.report(b)
		})
	}
}

// BenchmarkLibrary writes and reads the same entries with the library's own functions. They
// wait for an answer to each message, and make lists of all they read. It is the reason for
// entries.go and readEntries.
func BenchmarkLibrary(b *testing.B) {
	l := laps{}
	for range b.N {
		n, s := withRemotePods(b, 10_000)
		plan := n.decideFrom(s)
		n.in(n.name, func() {
			vxlan, errVXLAN := indexOf("vx1001")
			bridge, errBridge := indexOf("nw1001")
			if errVXLAN != nil || errBridge != nil {
				b.Error(errVXLAN, errBridge)
				return
			}
			start := now()
			for _, step := range plan {
				entry := netlink.Neigh{LinkIndex: vxlan, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT}
				switch a := step.Action.(type) {
				case dataplane.ReplaceFDB:
					if !a.Dst.IsValid() {
						continue // one message is for both
					}
					entry.Family, entry.State, entry.Flags = unix.AF_BRIDGE, netlink.NUD_NOARP|netlink.NUD_REACHABLE, netlink.NTF_SELF|netlink.NTF_MASTER|netlink.NTF_STICKY
					entry.HardwareAddr, entry.IP = a.MAC[:], a.Dst.AsSlice()
				case dataplane.ReplaceNeighbour:
					entry.LinkIndex, entry.HardwareAddr, entry.IP = bridge, a.MAC[:], a.IP.AsSlice()
				default:
					continue
				}
				if err := netlink.NeighSet(&entry); err != nil {
					b.Errorf("%s: %v", step, err)
				}
			}
			start = l.add("apply", start)
			for _, family := range []int{unix.AF_UNSPEC, unix.AF_BRIDGE} {
				if _, err := netlink.NeighList(0, family); err != nil {
					b.Error(err)
				}
			}
			start = l.add("read-entries", start)
			r := &room{ns: dataplane.Namespace{}, names: map[int]string{vxlan: "vx1001", bridge: "nw1001"}}
			if err := errors.Join(r.readEntries(unix.AF_UNSPEC, r.neighbour), r.readEntries(unix.AF_BRIDGE, r.fdb)); err != nil {
				b.Error(err)
			}
			l.add("ours-read-entries", start)
		})
	}
	l.report(b)
}

// BenchmarkRouters measures a read of a node with many Networks, each with a router.
func BenchmarkRouters(b *testing.B) {
	const many, times = 50, 20
	l := laps{}
	for range b.N {
		c := newCluster(b, 1)
		n := c.nodes[0]
		for i := range many {
			network := c.network(fmt.Sprintf("network%d", i), int32(1001+i), "192.168.0.0/16")
			n.attach(n.pod(fmt.Sprint(i), network, "192.168.0.2"))
		}
		n.sync()
		for range times {
			start := now()
			_, err := n.kernel.Read()
			must(b, err)
			l.add("read", start)
		}
	}
	l.report(b)
}
