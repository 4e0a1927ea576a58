//go:build linux && kernel

package kernel

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/dataplane"
)

func TestTwoNetworksOfOneCIDR(t *testing.T) {
	c, blue, green := twoByTwo(t)
	only := c.nodes[1].pod("only", blue[0].network, "192.168.0.9")
	c.nodes[1].attach(only)
	c.sync()
	for i := range 2 {
		blue[i].reaches(blue[1-i].ip, blue[1-i].name)
		green[i].reaches(green[1-i].ip, green[1-i].name)
	}
	blue[0].reaches(only.ip, "only")
	blue[1].reaches(only.ip, "only") // of the same node
	green[0].reaches(only.ip, "")
	green[1].reaches(only.ip, "")
}

func TestIPv6(t *testing.T) {
	c := newCluster(t, 2)
	v6 := c.network("v6", 1003, "fd00:10::/64")
	a, b, d := c.nodes[0].pod("a", v6, "fd00:10::2"), c.nodes[1].pod("b", v6, "fd00:10::3"), c.nodes[0].pod("d", v6, "fd00:10::4")
	c.nodes[0].attach(a)
	c.nodes[1].attach(b)
	c.nodes[0].attach(d)
	c.alsoIPv6()
	c.echo("world", "world")
	c.sync()
	a.reaches(b.ip, "b")
	b.reaches(a.ip, "a")
	a.reaches(d.ip, "d")
	a.reaches(ipv6.world(), "world")
	for _, n := range c.nodes {
		if d := n.drops("nd") + n.drops("ip") + n.drops("mac"); d > 0 {
			t.Errorf("%s dropped %d packets of honest pods", n.name, d)
		}
	}
}

// Restart: another process reads the same kernel, and has nothing to do.
func TestRestartChangesNothing(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	n := c.nodes[0]
	conn, err := c.dial(blue[0].name, "tcp", netip.AddrPortFrom(blue[1].ip, 7).String(), nil)
	must(t, err)
	must(t, n.kernel.Close())
	n.kernel, err = NewAt(c.dir+"/node1", c.dir+"/netns-node1")
	must(t, err)
	if p := n.decide(n.kernel); len(p) > 0 {
		t.Errorf("to be done:\n%s", p)
	}
	expectEcho(t, conn, "blue2 192.168.0.2")
}

func expectEcho(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	b := make([]byte, 100)
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, err := conn.Write([]byte("?"))
	n := 0
	if err == nil {
		n, err = conn.Read(b)
	}
	if got := string(b[:n]); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// The bridge of a pod that CNI attached before there was an agent becomes part of the
// Network; the pod's port stays on it.
func TestBridgeThatExisted(t *testing.T) {
	c := newCluster(t, 2)
	blue := c.network("blue", 1001, "192.168.0.0/16")
	a, b := c.nodes[0].pod("a", blue, "192.168.0.2"), c.nodes[1].pod("b", blue, "192.168.0.3")
	c.nodes[0].attach(a)
	var before, after netlink.Link
	c.in("node1", func() { before, _ = netlink.LinkByName("nw1001") })
	a.reaches(b.ip, "")
	c.sync()
	c.nodes[1].attach(b)
	c.sync()
	a.reaches(b.ip, "b")
	c.in("node1", func() { after, _ = netlink.LinkByName("nw1001") })
	if before.Attrs().Index != after.Attrs().Index {
		t.Error("the bridge is another")
	}
	// A lower MAC address of a port changes nothing: neighbours stay (pitfall 1).
	d := c.nodes[0].pod("d", blue, "192.168.0.4")
	d.mac[0] = 0x02
	c.nodes[0].plug(d)
	c.in("node1", func() {
		l, err := netlink.LinkByName("vethd")
		if err == nil {
			err = netlink.LinkSetHardwareAddr(l, net.HardwareAddr{0, 0, 0, 0, 0, 1})
		}
		if err != nil {
			t.Error(err)
		}
	})
	if p := c.nodes[0].decide(c.nodes[0].kernel); strings.Contains(p.String(), "neigh") {
		t.Errorf("neighbours were flushed:\n%s", p)
	}
}

// What somebody with root breaks works again after a sync.
func TestRepair(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	c.echo("world", "world")
	n := c.nodes[0]
	link := func(name string) netlink.Link {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Error(err)
		}
		return l
	}
	for _, tt := range []struct {
		name  string
		where string
		harm  func() error
		want  string
	}{
		{"entries of the VXLAN device and neighbours", "node1", func() error {
			var errs []error
			for _, family := range []int{unix.AF_BRIDGE, unix.AF_INET} {
				list, err := netlink.NeighList(0, family)
				errs = append(errs, err)
				for _, e := range list {
					if e.LinkIndex == link("vx1001").Attrs().Index && e.IP != nil || family == unix.AF_INET && e.LinkIndex == link("nw1001").Attrs().Index {
						errs = append(errs, netlink.NeighDel(&e))
					}
				}
			}
			return errors.Join(errs...)
		}, "bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.9.0.2 self static\nip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent\n"},
		{"bridge down, which flushes neighbours", "node1", func() error { return netlink.LinkSetDown(link("nw1001")) },
			"ip link set nw1001 up\nip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent\n"},
		{"VXLAN device gone", "node1", func() error { return netlink.LinkDel(link("vx1001")) }, ""},
		{"VXLAN device off the bridge", "node1", func() error { return netlink.LinkSetNoMaster(link("vx1001")) }, ""},
		{"bridge gone, and the pods' ports on none", "node1", func() error { return netlink.LinkDel(link("nw1001")) }, ""},
		{"learning and flooding", "node1", func() error {
			return errors.Join(netlink.LinkSetLearning(link("vx1001"), true), netlink.LinkSetFlood(link("vx1001"), true))
		}, "bridge link set dev vx1001 learning on flood on\n"},
		{"a pod's port down", "node1", func() error { return netlink.LinkSetDown(link("vethblue1")) }, "ip link set vethblue1 up\n"},
		{"a pod's port isolated, learning nothing", "node1", func() error {
			return setPort(link("vethblue1").Attrs().Index, dataplane.PortFlags{Isolated: true, Flood: true, MulticastFlood: true, BroadcastFlood: true})
		}, "bridge link set dev vethblue1 learning on isolated off\n"},
		{"no packet meets the rules of bridges", "node1", func() error { return dormant(nftables.TableFamilyBridge) }, ""},
		{"no packet meets the rules of the node", "node1", func() error { return dormant(nftables.TableFamilyINet) }, ""},
		{"MTU, the bridge's with it", "node1", func() error { return netlink.LinkSetMTU(link("vx1001"), 1400) }, "ip link set nw1001 mtu 1450\nip link set vx1001 mtu 1450\n"},
		{"nft flush ruleset", "node1", flushNFT, ""},
		{"router's nft flush ruleset", "netns-node1/pod2-1001", flushNFT,
			"ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 7 rules, 0 sets, 0 elements\n"},
		{"router gone", "node1", func() error { return n.kernel.delNamespace("pod2-1001") }, ""},
		{"router's addresses and route gone", "netns-node1/pod2-1001", func() error {
			return errors.Join(netlink.LinkSetDown(link("wan")), netlink.AddrDel(link("lan"), &netlink.Addr{IPNet: &net.IPNet{IP: net.IP{192, 168, 0, 1}, Mask: net.CIDRMask(16, 32)}}))
		}, "ip -n pod2-1001 link set wan up\nip -n pod2-1001 addr add 192.168.0.1/16 dev lan\nip -n pod2-1001 route add default via 100.64.0.0 dev wan\n"},
		{"nothing is routed", "node1", func() error { return setSysctl(dataplane.Sysctl{Name: "net.ipv4.ip_forward", Value: "0"}) },
			"sysctl -w net.ipv4.ip_forward=1\n"},
		{"an address on the bridge", "node1", func() error {
			return netlink.AddrAdd(link("nw1001"), &netlink.Addr{IPNet: &net.IPNet{IP: net.IP{192, 168, 0, 77}, Mask: net.CIDRMask(16, 32)}})
		}, "ip addr del 192.168.0.77/16 dev nw1001\nip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			c.in(tt.where, func() { err = tt.harm() })
			must(t, err)
			got := n.sync()
			if got == "" || tt.want != "" && got != strings.Replace(tt.want, "learning on flood on", "learning off flood off", 1) {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
			blue[0].reaches(blue[1].ip, "blue2")
			blue[1].reaches(blue[0].ip, "blue1")
			blue[0].reaches(netip.MustParseAddr("10.9.0.100"), "world")
		})
	}
}

// An entry that the kernel refuses is said to be; those around it are done, and one that
// is gone already need not be removed.
func TestEntryThatIsRefused(t *testing.T) {
	c, _, _ := twoByTwo(t)
	n := c.nodes[0]
	neighbour := func(last byte) dataplane.Neighbour {
		return dataplane.Neighbour{Dev: "nw1001", IP: netip.AddrFrom4([4]byte{192, 168, 0, last}), MAC: dataplane.MAC{2, 0, 0, 0, 0, last}}
	}
	var plan dataplane.Plan
	for _, a := range []dataplane.Action{
		dataplane.DelNeighbour{Neighbour: neighbour(99)},
		dataplane.ReplaceNeighbour{Neighbour: neighbour(100)},
		dataplane.ReplaceFDB{FDB: dataplane.FDB{Dev: "eth0", MAC: dataplane.MAC{2}, Sticky: true}},
		dataplane.ReplaceNeighbour{Neighbour: neighbour(101)},
	} {
		plan = append(plan, dataplane.Step{Network: 1001, Action: a})
	}
	done, err := n.kernel.Apply(plan)
	if done != 2 || err == nil || !strings.HasPrefix(err.Error(), "bridge fdb replace 02:00:00:00:00:00 dev eth0 master static sticky: ") {
		t.Errorf("%d done, %v", done, err)
	}
	got := slices.Sorted(strings.Lines(n.sync())) // the kernel has them in no order
	want := "ip neigh del 192.168.0.100 lladdr 02:00:00:00:00:64 dev nw1001 nud permanent\nip neigh del 192.168.0.101 lladdr 02:00:00:00:00:65 dev nw1001 nud permanent\n"
	if got := strings.Join(got, ""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// What stops one Network does not stop the next, and what was done of either is told.
func TestNetworksDoNotStopEachOther(t *testing.T) {
	c, _, _ := twoByTwo(t)
	step := func(vni int32, dev string, last byte) dataplane.Step {
		return dataplane.Step{Network: vni, Action: dataplane.ReplaceNeighbour{Neighbour: dataplane.Neighbour{
			Dev: dev, IP: netip.AddrFrom4([4]byte{192, 168, 0, last}), MAC: dataplane.MAC{2, 0, 0, 0, 0, last}}}}
	}
	done, err := c.nodes[0].kernel.Perform(dataplane.Plan{step(1001, "missing", 100), step(1001, "nw1001", 101), step(1002, "nw1002", 102)})
	if got, want := done.String(), "ip neigh replace 192.168.0.102 lladdr 02:00:00:00:00:66 dev nw1002 nud permanent\n"; got != want || err == nil {
		t.Errorf("got\n%s%v\nwant\n%s", got, err, want)
	}
}

// A pod may end between the reading and the doing; what was to be done with its port need
// not be done.
func TestPodEndsMeanwhile(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	n := c.nodes[0]
	d := n.pod("d", blue[0].network, "192.168.0.4")
	n.attach(d)
	port := func(do func(netlink.Link) error) {
		c.in("node1", func() {
			l, err := netlink.LinkByName("vethd")
			if err == nil {
				err = do(l)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	port(netlink.LinkSetDown)
	plan := n.decide(n.kernel)
	port(netlink.LinkDel)
	if text := plan.String(); !strings.Contains(text, "ip link set vethd up\n") || !strings.Contains(text, " dev vethd master static sticky\n") {
		t.Errorf("nothing was to be done:\n%s", text)
	}
	if done, err := n.kernel.Apply(plan); err != nil || done != len(plan) {
		t.Errorf("%d of %d, %v", done, len(plan), err)
	}
	n.sync()
}

func TestCleanUpLeavesNothing(t *testing.T) {
	c, _, _ := twoByTwo(t)
	n := c.nodes[0]
	host, err := n.kernel.Read()
	must(t, err)
	_, err = n.kernel.Apply(dataplane.Diff(host, nil))
	must(t, err)
	host, err = n.kernel.Read()
	must(t, err)
	var left []string
	for _, l := range host[0].Links {
		if l.Name != "eth0" { // the node's own, a veth
			left = append(left, l.Name)
		}
	}
	if got := strings.Join(left, " "); got != "nw1001 nw1002 vethblue1 vethgreen1" || len(host) != 1 || len(host[0].Tables)+len(host[0].FDB)+len(host[0].Neighbours) > 0 {
		t.Errorf("left: %s\n%+v", got, host)
	}
}
