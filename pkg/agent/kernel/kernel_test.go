//go:build linux && kernel

package kernel

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Pods of two Networks with one CIDR reach the world through routers of their own.
func TestRouters(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		_, blue, green := f.twoNetworks(t)
		blue.reaches(f.world(), "world")
		green.reaches(f.world(), "world")
	})
}

// After a restart, another process reads the same kernel and has nothing to do.
func TestRestartChangesNothing(t *testing.T) {
	l, blue, _ := ipv4.twoNetworks(t)
	conn, err := l.dial(blue.name, "tcp", netip.AddrPortFrom(ipv4.world(), 7).String(), nil)
	must(t, err)
	must(t, l.kernel.Close())
	l.kernel, err = NewAt(l.dir+"/node1", l.dir+"/netns-node1")
	must(t, err)
	if p, _ := l.decide(); len(p) > 0 {
		t.Errorf("to be done:\n%s", p)
	}
	expectEcho(t, conn, "world 10.9.0.1")
}

// A failure of one Network does not stop the next. The steps that were done are returned.
func TestNetworksDoNotStopEachOther(t *testing.T) {
	l, _, _ := ipv4.twoNetworks(t)
	step := func(vni int32, dev, address string) dataplane.Step {
		return dataplane.Step{Network: vni, Action: dataplane.AddAddress{Address: dataplane.Address{Dev: dev, Prefix: netip.MustParsePrefix(address)}}}
	}
	done, err := l.kernel.Perform(dataplane.Plan{step(1001, "missing", "10.5.0.1/32"), step(1001, "wn1001", "10.5.0.2/32"), step(1002, "wn1002", "10.5.0.3/32")})
	if got, want := done.String(), "ip addr add 10.5.0.3/32 dev wn1002\n"; got != want || err == nil {
		t.Errorf("got\n%s%v\nwant\n%s", got, err, want)
	}
}

// If a step of the node fails, no Network gets its steps.
func TestNodeStopsNetworks(t *testing.T) {
	l := newLab(t)
	done, err := l.kernel.Perform(dataplane.Plan{{Action: dataplane.SetSysctl{Sysctl: dataplane.Sysctl{Name: "net.missing", Value: "1"}}},
		{Network: 1001, Action: dataplane.AddNamespace{Name: "pod2-1001"}}})
	if len(done) > 0 || err == nil || !strings.HasPrefix(err.Error(), "sysctl -w net.missing=1: ") {
		t.Errorf("done: %s, %v", done, err)
	}
}

func TestCleanUpLeavesNothing(t *testing.T) {
	l, blue, green := ipv4.twoNetworks(t)
	host, err := l.kernel.Read()
	must(t, err)
	_, err = l.kernel.Perform(dataplane.Diff(host, nil))
	must(t, err)
	host, err = l.kernel.Read()
	must(t, err)
	if len(host) != 1 || len(host[0].Links)+len(host[0].Tables)+len(host[0].Addresses)+len(host[0].Routes) > 0 {
		t.Errorf("left: %+v", host)
	}
	l.in("node1", func() { l.index(blue.port); l.index(green.port) }) // the pods keep their interfaces
}

// The rules count dropped packets, by their comments.
func TestDrops(t *testing.T) {
	l, blue, _ := ipv4.twoNetworks(t)
	if d, err := l.kernel.Drops(); err != nil || d["node"] != 0 {
		t.Fatalf("%v, %v", d, err)
	}
	blue.reaches(ipv4.node(1), "")
	if d, err := l.kernel.Drops(); err != nil || d["node"] == 0 || d["vxlan"] != 0 {
		t.Errorf("%v, %v", d, err)
	}
}

// A pod's or router's port whose program is missing leads nowhere: its packets are dropped.
func TestPortsAreClosed(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l, blue, _ := f.twoNetworks(t)
		for _, tt := range []struct {
			namespace, dev, port string
			to                   netip.Addr
		}{{blue.name, "net1", blue.port, blue.network.Gateway}, {"netns-node1/pod2-1001", "lan", "rt1001", blue.ip}} {
			var mac net.HardwareAddr
			l.in("node1", func() { l.close(tt.port); mac = l.link(tt.port).Attrs().HardwareAddr })
			l.in(tt.namespace, func() { // so the node takes the packet for one that it has to route
				if err := netlink.NeighSet(&netlink.Neigh{LinkIndex: l.index(tt.dev), State: netlink.NUD_PERMANENT, IP: tt.to.AsSlice(), HardwareAddr: mac}); err != nil {
					t.Error(err)
				}
			})
			conn, err := l.dial(tt.namespace, "udp", netip.AddrPortFrom(tt.to, 7).String(), nil)
			must(t, err)
			const many = 50 // more than a kernel sends by itself
			want := l.strangers() + many
			for range many {
				_, err = conn.Write([]byte("?"))
				must(t, err)
			}
			for end := time.Now().Add(patience); l.strangers() < want && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if l.strangers() < want {
				t.Errorf("%s is open", tt.port)
			}
		}
	})
}

func (l *lab) strangers() uint64 {
	l.Helper()
	drops, err := l.kernel.Drops()
	must(l, err)
	return drops["stranger"]
}
