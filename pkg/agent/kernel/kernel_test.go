//go:build linux && kernel

package kernel

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/pod2/pod2/pkg/agent/dataplane"
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
	blue[1].reaches(only.ip, "only") // on the same node
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

// After a restart, another process reads the same kernel and has nothing to do.
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

// CNI attached a pod before the agent ran. Its bridge becomes part of the Network, and keeps
// the pod's port.
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
	// A port with a lower MAC address changes nothing: neighbours stay (pitfall 1).
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

// Perform reports an entry that the kernel refuses, and executes the steps around it. To
// remove an entry that is already gone is a success.
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
	done, err := n.kernel.Perform(plan)
	if len(done) != 2 || err == nil || !strings.HasPrefix(err.Error(), "bridge fdb replace 02:00:00:00:00:00 dev eth0 master static sticky: ") {
		t.Errorf("%d done, %v", len(done), err)
	}
	got := slices.Sorted(strings.Lines(n.sync())) // the kernel returns them in any order
	want := "ip neigh del 192.168.0.100 lladdr 02:00:00:00:00:64 dev nw1001 nud permanent\nip neigh del 192.168.0.101 lladdr 02:00:00:00:00:65 dev nw1001 nud permanent\n"
	if got := strings.Join(got, ""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A failure of one Network does not stop the next. The steps that were done are returned.
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

// A pod may end between the read and the steps. Steps on its port are then skipped.
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
	if done, err := n.kernel.Perform(plan); err != nil || len(done) != len(plan) {
		t.Errorf("%d of %d, %v", len(done), len(plan), err)
	}
	n.sync()
}

func TestCleanUpLeavesNothing(t *testing.T) {
	c, _, _ := twoByTwo(t)
	n := c.nodes[0]
	host, err := n.kernel.Read()
	must(t, err)
	_, err = n.kernel.Perform(dataplane.Diff(host, nil))
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
