//go:build linux && kernel

package kernel

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// frame sends any bytes as a frame from an interface of a namespace.
func (c *cluster) frame(namespace, dev string, to, from dataplane.MAC, etherType uint16, content []byte) {
	c.Helper()
	var err error
	c.in(namespace, func() {
		var l netlink.Link
		if l, err = netlink.LinkByName(dev); err != nil {
			return
		}
		var fd int
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		b := append(append(to[:], from[:]...), byte(etherType>>8), byte(etherType))
		err = unix.Sendto(fd, append(b, content...), 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Halen: 6})
	})
	must(c, err)
}

// arp is a reply that claims that ip is at mac.
func arp(mac dataplane.MAC, ip netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, 2}
	b = append(append(b, mac[:]...), ip.AsSlice()...)
	return append(append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), ip.AsSlice()...)
}

var everybody = dataplane.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Packets that a pod sends with another's address are dropped and counted, and change
// nothing for others (pitfalls 2 and 3).
func TestSpoofing(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	thief, victim, n := blue[0], blue[1], c.nodes[0]
	gateway := dataplane.MAC{0x02, 0, 0x5e, 0, 0x03, 0xe9}
	thief.reaches(victim.ip, victim.name)
	ip := make([]byte, 28) // an IPv4 header, and of UDP
	ip[0], ip[3], ip[8], ip[9] = 0x45, 28, 64, unix.IPPROTO_UDP
	copy(ip[16:], victim.ip.AsSlice())
	from := func(a netip.Addr) []byte { b := append([]byte{}, ip...); copy(b[12:], a.AsSlice()); return b }
	ns := make([]byte, 64) // an IPv6 header, and a neighbour advertisement of another's address
	ns[0], ns[5], ns[6], ns[7], ns[40] = 0x60, 24, unix.IPPROTO_ICMPV6, 255, 136
	copy(ns[8:], linkLocal(thief.mac))
	copy(ns[24:], netip.MustParseAddr("ff02::1").AsSlice())
	copy(ns[48:], netip.MustParseAddr("fd00::9").AsSlice())
	advert := append([]byte{}, ns...)
	advert[40] = 134
	other := append([]byte{}, ns...)
	copy(other[8:], netip.MustParseAddr("fd00::9").AsSlice())
	other[40] = 128
	const times = 20
	for _, tt := range []struct {
		name, counter string
		from          dataplane.MAC
		etherType     uint16
		content       []byte
	}{
		{"the gateway's MAC address", "mac", gateway, unix.ETH_P_IP, from(thief.ip)},
		{"another pod's MAC address", "mac", victim.mac, unix.ETH_P_IP, from(thief.ip)},
		{"another pod's IP address", "ip", thief.mac, unix.ETH_P_IP, from(netip.MustParseAddr("192.168.0.77"))},
		{"ARP for the gateway", "arp", thief.mac, unix.ETH_P_ARP, arp(thief.mac, netip.MustParseAddr("192.168.0.1"))},
		{"ARP with another MAC address inside", "arp", thief.mac, unix.ETH_P_ARP, arp(victim.mac, thief.ip)},
		{"a neighbour advertisement for another", "nd", thief.mac, unix.ETH_P_IPV6, ns},
		{"a router advertisement", "nd", thief.mac, unix.ETH_P_IPV6, advert},
		{"another IPv6 address", "ip", thief.mac, unix.ETH_P_IPV6, other},
		{"a VLAN tag", "protocol", thief.mac, unix.ETH_P_8021Q, append([]byte{0, 5, 8, 0}, from(thief.ip)...)},
		{"a protocol that is not IP", "protocol", thief.mac, 0x88b5, []byte("x")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, ofThief := n.drops(tt.counter), n.spoofed("veth"+thief.name)
			for range times {
				c.frame(thief.name, "net1", victim.mac, tt.from, tt.etherType, tt.content)
			}
			if got := n.drops(tt.counter) - before; got != times {
				t.Errorf("%d of %d were counted as %s", got, times, tt.counter)
			}
			if got := n.spoofed("veth"+thief.name) - ofThief; got != times {
				t.Errorf("%d of %d were counted as of the port", got, times)
			}
			if p := n.decide(n.kernel); len(p) > 0 {
				t.Errorf("it changed the kernel:\n%s", p)
			}
			victim.reaches(thief.ip, thief.name)
		})
	}
	if got := n.spoofed("vethgreen1"); got != 0 {
		t.Errorf("%d were counted as of a port that sent nothing", got)
	}
}

// spoofed packets of a port of a node.
func (n *node) spoofed(port string) uint64 {
	n.Helper()
	d, err := n.kernel.Drops()
	must(n, err)
	return d.Ports[port]
}

func linkLocal(m dataplane.MAC) []byte {
	return []byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]}
}

// Entries are sticky: they do not move even without a filter.
func TestEntriesStayWithoutFilter(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	n := c.nodes[0]
	c.in("node1", func() {
		if err := delTable("bridge", dataplane.TableName); err != nil {
			t.Error(err)
		}
	})
	for _, mac := range []dataplane.MAC{blue[1].mac, {0x02, 0, 0x5e, 0, 0x03, 0xe9}} {
		c.frame(blue[0].name, "net1", everybody, mac, 0x88b5, []byte("x"))
	}
	if got := n.sync(); strings.Contains(got, "fdb") {
		t.Errorf("entries had moved:\n%s", got)
	}
}

// A port without a known pod is closed. It is opened once its pod is known.
func TestUnknownPortIsClosed(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	n := c.nodes[0]
	d := n.pod("d", blue[0].network, "192.168.0.4")
	n.plug(d)
	c.sync()
	d.reaches(blue[0].ip, "")
	d.reaches(blue[1].ip, "")
	blue[0].reaches(d.ip, "")
	if n.drops("stranger") == 0 {
		t.Error("nothing was counted")
	}
	n.ports = append(n.ports, dataplane.Port{Interface: "vethd", PodUID: "u-d"})
	c.sync()
	d.reaches(blue[0].ip, "blue1")
	blue[1].reaches(d.ip, "d")
}

// Two ports without known pods do not reach each other. Two ports of another program's
// bridge do.
func TestTwoUnknownPorts(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	n := c.nodes[0]
	n.others("o1", "o2")
	d, e := n.pod("d", blue[0].network, "192.168.0.4"), n.pod("e", blue[0].network, "192.168.0.5")
	n.plug(d)
	n.plug(e)
	d.reaches(e.ip, "e") // the agent has not seen the ports yet
	c.sync()
	d.reaches(e.ip, "")
	e.reaches(d.ip, "")
	n.ports = append(n.ports, dataplane.Port{Interface: "vethd", PodUID: "u-d"})
	c.sync()
	d.reaches(e.ip, "")
	e.reaches(d.ip, "")
	if got, _, _ := strings.Cut(c.answer("o1", netip.MustParseAddr("172.16.0.2"), patience), " "); got != "o2" {
		t.Errorf("on the other program's bridge: %q", got)
	}
}

// others are two namespaces on a bridge of the node that does not belong to the agent.
func (n *node) others(names ...string) {
	n.Helper()
	for i, name := range names {
		n.namespace(name)
		ns, err := keeper(n.dir).open(name)
		must(n, err)
		defer ns.Close()
		n.in(n.name, func() {
			_ = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "docker0"}})
			n.up("docker0")
			br, err := indexOf("docker0")
			if err == nil {
				err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v" + name, MasterIndex: br}, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)})
			}
			if err != nil {
				n.Errorf("attach %s: %v", name, err)
			}
			n.up("v" + name)
		})
		n.in(name, func() {
			n.addressOn("eth0", netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, 0, byte(i + 1)}), 24))
			n.up("eth0")
		})
		n.echo(name, name)
	}
}

// Neither the gateway nor the bridge leads to a node's own ports or to the API server. No
// packet from outside reaches a pod (pitfall 9).
func TestNoWayToNodes(t *testing.T) { eachFamily(t, noWayToNodes) }

func noWayToNodes(t *testing.T, f family) {
	c, blue, _ := f.twoByTwo(t)
	c.echo("world", "world")
	for _, n := range c.nodes {
		c.echo(n.name, n.name)
	}
	world := f.world()
	blue[0].reaches(world, "world")
	if got, want := c.answer(blue[0].name, world, patience), "world "+f.node(1).String(); got != want {
		t.Errorf("behind its node: got %q, want %q", got, want)
	}
	c.in("node1", func() { c.addressOn("lo", netip.PrefixFrom(f.cache, f.cache.BitLen())) })
	for _, ip := range []netip.Addr{f.node(1), f.node(2), f.near[0], f.near[1], f.cache} {
		before := c.nodes[0].drops("node")
		blue[0].reaches(ip, "")
		if c.nodes[0].drops("node") == before {
			t.Errorf("%s: nothing was counted", ip)
		}
	}
	c.state.APIServers = []netip.AddrPort{netip.AddrPortFrom(world, 7)}
	c.sync()
	if conn, err := c.dial(blue[0].name, "tcp", netip.AddrPortFrom(world, 7).String(), nil); err == nil {
		t.Errorf("reached %s", conn.RemoteAddr())
	}
	if c.nodes[0].drops("api") == 0 {
		t.Error("nothing was counted")
	}
	// A packet to the bridge's own MAC address: without a rule the node would route it.
	before := c.nodes[0].drops("bridge")
	c.frame(blue[0].name, "net1", dataplane.MAC{0x0e, 0, 0x5e, 0, 0x03, 0xe9}, blue[0].mac, f.etherType, f.packet(blue[0].ip, world))
	if got := c.nodes[0].drops("bridge") - before; got != 0 {
		t.Errorf("%d packets came past the bridge's own filter", got)
	}
	// From outside, with a route that a user made.
	c.in("world", func() {
		l, err := netlink.LinkByName("eth0")
		if err == nil {
			err = netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(f.transit), Gw: f.node(1).AsSlice()})
		}
		if err != nil {
			t.Error(err)
		}
	})
	if got := c.answer("world", f.far, silence); got != "" || c.nodes[0].drops("inbound") == 0 {
		t.Errorf("from outside: %q answers, %d dropped", got, c.nodes[0].drops("inbound"))
	}
}

// Pods reach an address that a node's Node does not list, and one of a Service, until the
// address is denied. Both the Service's address and the translated one can be denied.
func TestDenied(t *testing.T) { eachFamily(t, denied) }

func denied(t *testing.T, f family) {
	c, blue, _ := f.twoByTwo(t)
	unlisted, service, world := f.node(22), f.node(200), f.world()
	c.echo("node2", "node2")
	c.echo("world", "world")
	c.in("node2", func() { c.addressOn("eth0", netip.PrefixFrom(unlisted, f.wire.Bits())) })
	c.in("node1", func() {
		if err := translate(service, world); err != nil {
			t.Error(err)
		}
	})
	for _, tt := range []struct {
		denied                    []netip.Prefix
		unlisted, service, direct string
	}{
		{nil, "node2", "world", "world"},
		{[]netip.Prefix{only(unlisted), only(service)}, "", "", "world"},
		{[]netip.Prefix{only(world)}, "node2", "", ""},
		{[]netip.Prefix{f.transit, netip.MustParsePrefix("fe80::/10")}, "node2", "world", "world"},
	} {
		c.state.Denied = tt.denied
		c.sync()
		c.forget("node1", "wn1001")
		c.forget("netns-node1/pod2-1001", "wan")
		if got := c.connects(blue[0].name, unlisted); got != tt.unlisted {
			t.Errorf("%s: at %s answers %q, not %q", tt.denied, unlisted, got, tt.unlisted)
		}
		blue[0].reaches(service, tt.service)
		blue[0].reaches(world, tt.direct)
		counted := c.nodes[0].drops("denied") > 0
		if should := tt.unlisted == "" || tt.service == ""; counted != should {
			t.Errorf("%s: counted: %t", tt.denied, counted)
		}
	}
	// The node finds the router to answer it even if the addresses between them are denied.
	conn, err := c.dial(blue[0].name, "tcp", netip.AddrPortFrom(world, 7).String(), nil)
	must(t, err)
	c.forget("node1", "wn1001")
	expectEcho(t, conn, "world "+f.node(1).String())
}

func only(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }

func TestNoEgress(t *testing.T) { eachFamily(t, noEgress) }

func noEgress(t *testing.T, f family) {
	c, blue, green := f.twoByTwo(t)
	c.echo("world", "world")
	c.state.Networks[0].Egress = false
	c.sync()
	blue[0].reaches(f.world(), "")
	green[0].reaches(f.world(), "world")
	blue[0].reaches(blue[1].ip, "blue2")
}
