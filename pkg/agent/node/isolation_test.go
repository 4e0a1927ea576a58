//go:build linux && kernel

package node

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Packets that a pod sends with another's address are dropped and counted as the pod's. They
// change nothing for others. Package bpf tests more kinds of them.
func TestSpoofing(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	thief, victim, n := blue[0], blue[1], l.nodes[0]
	thief.reaches(victim.ip, victim.name)
	advertisement := make([]byte, 64) // an IPv6 header, and a neighbour advertisement
	advertisement[0], advertisement[5], advertisement[6], advertisement[7], advertisement[40] = 0x60, 24, unix.IPPROTO_ICMPV6, 255, 136
	const times = 20
	for _, tt := range []struct {
		name, counter string
		from          dataplane.MAC
		etherType     uint16
		content       []byte
	}{
		{"the gateway's MAC address", "mac", dataplane.GatewayMAC(blueVNI), unix.ETH_P_IP, ipv4.packet(thief.ip, victim.ip)},
		{"another pod's MAC address", "mac", victim.mac, unix.ETH_P_IP, ipv4.packet(thief.ip, victim.ip)},
		{"another pod's IP address", "ip", thief.mac, unix.ETH_P_IP, ipv4.packet(ipv4.pod(77), victim.ip)},
		{"ARP for the gateway", "arp", thief.mac, unix.ETH_P_ARP, arp(thief.mac, ipv4.pod(1))},
		{"a VLAN tag", "protocol", thief.mac, unix.ETH_P_8021Q, append([]byte{0, 5, 8, 0}, ipv4.packet(thief.ip, victim.ip)...)},
		{"a protocol that is not IP", "protocol", thief.mac, 0x88b5, []byte("x")},
		{"a neighbour advertisement", "nd", thief.mac, unix.ETH_P_IPV6, advertisement},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ofThief := Drop{Reason: tt.counter, Namespace: "default", Network: "blue", Pod: "blue1"}
			before, err := n.node.Drops()
			must(t, err)
			for range times {
				l.frame(thief.name, "net1", victim.mac, tt.from, tt.etherType, tt.content)
			}
			after, err := n.node.Drops()
			must(t, err)
			if got := after[ofThief] - before[ofThief]; got != times {
				t.Errorf("%d of %d were counted as %v; all: %v", got, times, ofThief, after)
			}
			if again, changes := n.step(true); again != "" || changes > 0 {
				t.Errorf("it changed the kernel, and %d entries:\n%s", changes, again)
			}
			victim.reaches(thief.ip, thief.name)
		})
	}
}

// A port is closed while its pod is unknown, and opens once its pod is known again.
func TestUnknownPortIsClosed(t *testing.T) { eachFamily(t, unknownPortIsClosed) }

func unknownPortIsClosed(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	n := l.nodes[0]
	other := n.pod("other", blue[0].network, f.pod(9).String())
	l.attach(other)
	before := n.drops("stranger")
	n.lose(other)
	for _, p := range blue {
		other.reaches(p.ip, "")
		p.reaches(other.ip, "")
	}
	if n.drops("stranger") == before {
		t.Error("nothing was counted")
	}
	n.tellPod(other)
	other.reaches(blue[0].ip, "blue1")
	blue[1].reaches(other.ip, "other")
}

// Two ports of unknown pods do not reach each other.
func TestTwoUnknownPorts(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	n := l.nodes[0]
	d, e := n.pod("d", blue[0].network, "192.168.0.4"), n.pod("e", blue[0].network, "192.168.0.5")
	l.attach(d, e)
	d.reaches(e.ip, "e")
	n.lose(d)
	n.lose(e)
	d.reaches(e.ip, "")
	n.tellPod(d)
	d.reaches(e.ip, "")
	e.reaches(d.ip, "")
}

// A pod cannot take packets past its program: the node routes nothing that
// arrives from a port, even without programs.
func TestNoWayPastPrograms(t *testing.T) { eachFamily(t, noWayPastPrograms) }

func noWayPastPrograms(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	n := l.nodes[0]
	l.echo("world", "world")
	blue[0].reaches(f.world(), "world")
	var mac dataplane.MAC
	l.in(n.name, func() error {
		link, err := netlink.LinkByName(blue[0].attachment().HostInterface())
		if err != nil {
			return err
		}
		copy(mac[:], link.Attrs().HardwareAddr)
		return removePrograms(link)
	})
	// Past the neighbour table: to the MAC address of the node's end.
	l.frame(blue[0].name, "net1", mac, blue[0].mac, f.etherType, f.packet(blue[0].ip, f.world()))
	if got := more(0, func() uint64 { return n.filtered("stranger") }); got == 0 {
		t.Error("the node dropped nothing")
	}
	if l.answer(blue[0].name, f.world(), silence) != "" {
		t.Error("the pod has a path without programs")
	}
	n.step(true)
	blue[0].reaches(f.world(), "world")
}

// Neither the gateway nor VXLAN leads to a node's own ports or to the API server. No packet
// from outside reaches a pod, and the outside sees the node's address.
func TestNoWayToNodes(t *testing.T) { eachFamily(t, noWayToNodes) }

func noWayToNodes(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	l.echo("world", "world")
	for _, n := range l.nodes {
		l.echo(n.name, n.name)
	}
	node1, world := l.nodes[0], f.world()
	if got, want := l.answer(blue[0].name, world, patience), "world "+f.node(1).String(); got != want {
		t.Errorf("behind its node: got %q, want %q", got, want)
	}
	l.give("node1", "lo", only(f.cache))
	for _, ip := range []netip.Addr{f.node(1), f.node(2), f.cache} {
		before := node1.filtered("node")
		blue[0].reaches(ip, "")
		if node1.filtered("node") == before {
			t.Errorf("%s: nothing was counted", ip)
		}
	}
	l.state.APIServers = []netip.AddrPort{netip.AddrPortFrom(world, 7)}
	l.sync()
	if conn, err := l.dial(blue[0].name, "tcp", netip.AddrPortFrom(world, 7).String(), nil); err == nil {
		t.Errorf("reached %s", conn.RemoteAddr())
	}
	if node1.filtered("api") == 0 {
		t.Error("the API server: nothing was counted")
	}
	// From outside, with a route that a user made.
	l.route("world", "eth0", f.transit, f.node(1))
	if got := l.answer("world", blue[0].transit(), silence); got != "" || node1.filtered("inbound") == 0 {
		t.Errorf("from outside: %q answers, %d dropped", got, node1.filtered("inbound"))
	}
}

// A host outside and a program of the node send with the transit address of a pod, to a host that answers. If the node
// translated such a packet, conntrack would let the answer in to the pod.
func TestForgedTransitAddress(t *testing.T) { eachFamily(t, forgedTransitAddress) }

func forgedTransitAddress(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	p, node1 := blue[0], l.nodes[0]
	l.echo("node2", "node2")
	l.route("world", "eth0", only(f.node(2)), f.node(1))
	if got := l.answer("world", f.node(2), patience); got != "node2 "+f.world().String() {
		t.Fatalf("with its own address: %q answers", got)
	}
	inbox := p.listen(":7777")
	for _, sender := range []string{"world", "node1"} {
		before := node1.filtered("inbound")
		l.sendAs(sender, netip.AddrPortFrom(p.transit(), 7777), netip.AddrPortFrom(f.node(2), 7))
		if got := inbox(silence); got != "" {
			t.Errorf("sent by %s: the pod got %q", sender, got)
		}
		if node1.filtered("inbound") == before {
			t.Errorf("sent by %s: nothing was counted", sender)
		}
	}
}

// route in a namespace by way of a gateway.
func (l *lab) route(namespace, dev string, to netip.Prefix, via netip.Addr) {
	l.Helper()
	l.in(namespace, func() error {
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		return netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to), Gw: via.AsSlice()})
	})
}

// Pods reach an address that a node's Node does not list, one of a Service, and one of a
// cloud's metadata, until the address is denied. Both the Service's address and the
// translated one can be denied.
func TestDenied(t *testing.T) { eachFamily(t, denied) }

func denied(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	n := l.nodes[0]
	unlisted, service, world := f.node(22), f.node(200), f.world()
	l.echo("node2", "node2")
	l.echo("world", "world")
	l.give("node2", "eth0", netip.PrefixFrom(unlisted, f.wire.Bits()))
	l.give("world", "lo", only(f.metadata))
	l.route("node1", "eth0", only(f.metadata), world)
	l.in("node1", func() error { return translate(service, world) })
	for _, tt := range []struct {
		denied                              []netip.Prefix
		unlisted, service, direct, metadata string
	}{
		{nil, "node2", "world", "world", "world"},
		{[]netip.Prefix{only(unlisted), only(service), only(f.metadata)}, "", "", "world", ""},
		{[]netip.Prefix{only(world)}, "node2", "", "", "world"},
		{[]netip.Prefix{f.transit, netip.MustParsePrefix("fe80::/10")}, "node2", "world", "world", "world"},
	} {
		l.state.Denied = tt.denied
		l.sync()
		before := n.filtered("denied")
		if got := l.connects(blue[0].name, unlisted); got != tt.unlisted {
			t.Errorf("%s: at %s answers %q, not %q", tt.denied, unlisted, got, tt.unlisted)
		}
		blue[0].reaches(service, tt.service)
		blue[0].reaches(world, tt.direct)
		if got := l.connects(blue[0].name, f.metadata); got != tt.metadata {
			t.Errorf("%s: at %s answers %q, not %q", tt.denied, f.metadata, got, tt.metadata)
		}
		if counted, should := n.filtered("denied") > before, tt.unlisted == "" || tt.service == ""; counted != should {
			t.Errorf("%s: counted: %t", tt.denied, counted)
		}
	}
}

// Without egress, no packet leaves the Network. That of another Network does, and pods of the
// Network reach each other.
func TestNoEgress(t *testing.T) { eachFamily(t, noEgress) }

func noEgress(t *testing.T, f family) {
	l, blue, green := f.twoByTwo(t)
	l.echo("world", "world")
	l.state.Networks[0].Egress = false
	l.sync()
	blue[0].reaches(f.world(), "")
	if l.nodes[0].drops("egress") == 0 {
		t.Error("nothing was counted")
	}
	green[0].reaches(f.world(), "world")
	blue[0].reaches(blue[1].ip, "blue2")
	if !blue[0].pings(blue[0].network.Gateway, patience) {
		t.Error("the gateway does not answer")
	}
}

// Two pods of different Networks do not reach each other by their transit addresses.
func TestNoWayToTransitAddresses(t *testing.T) { eachFamily(t, noWayToTransitAddresses) }

func noWayToTransitAddresses(t *testing.T, f family) {
	l, blue, green := f.twoByTwo(t)
	blue[0].reaches(green[0].transit(), "")
	if blue[0].pings(green[0].transit(), silence) {
		t.Error("green1 answers")
	}
	if l.nodes[0].filtered("network") == 0 {
		t.Error("nothing was counted")
	}
}
