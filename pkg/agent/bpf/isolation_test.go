//go:build linux && kernel

package bpf

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"net/netip"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
)

var everybody = dataplane.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// send any frame from an interface, as a program with NET_RAW can.
func send(ns netns.NsHandle, dev string, frame []byte) error { return sendAs(ns, dev, 0, frame) }

// sendAs sends a frame that the kernel takes for one of that protocol. 0: the frame's.
func sendAs(ns netns.NsHandle, dev string, protocol uint16, frame []byte) error {
	return in(ns, func() error {
		index, err := indexOf(dev)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		err = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: int(index), Halen: 6, Protocol: bits.ReverseBytes16(protocol)})
		if errors.Is(err, unix.ENOBUFS) {
			return nil // a program dropped it before it left
		}
		return err
	})
}

func frame(to, from dataplane.MAC, etherType uint16, content ...byte) []byte {
	b := append(append(to[:], from[:]...), byte(etherType>>8), byte(etherType))
	return append(b, content...)
}

// udp4 is an IPv4 packet without payload, to port 7.
func udp4(from, to netip.Addr) []byte {
	b := make([]byte, 28)
	b[0], b[3], b[8], b[9], b[21], b[23], b[25] = 0x45, 28, 64, unix.IPPROTO_UDP, 7, 7, 8
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	setChecksum(b)
	return b
}

// setChecksum of an IPv4 header.
func setChecksum(b []byte) {
	binary.BigEndian.PutUint16(b[10:], 0)
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
}

// fragments of an IPv4 packet: two, of which the first has that many bytes after its header.
func fragments(packet []byte, first int) [][]byte {
	var parts [][]byte
	for _, part := range []struct{ from, to, flags int }{{20, 20 + first, 0x2000}, {20 + first, len(packet), 0}} {
		b := append(append([]byte{}, packet[:20]...), packet[part.from:part.to]...)
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[4:], 77)
		binary.BigEndian.PutUint16(b[6:], uint16(part.flags|(part.from-20)/8))
		setChecksum(b)
		parts = append(parts, b)
	}
	return parts
}

// ipv6 is a packet with that next header and content.
func ipv6(from, to netip.Addr, next byte, content ...byte) []byte {
	b := make([]byte, 40)
	b[0], b[5], b[6], b[7] = 0x60, byte(len(content)), next, 255
	copy(b[8:], from.AsSlice())
	copy(b[24:], to.AsSlice())
	return append(b, content...)
}

func arp(operation byte, mac dataplane.MAC, sender, target netip.Addr) []byte {
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, operation}, mac[:]...)
	b = append(append(b, sender.AsSlice()...), 0, 0, 0, 0, 0, 0)
	return append(b, target.AsSlice()...)
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// Frames that a pod may not send are dropped and counted.
func TestSpoofing(t *testing.T) {
	l := newLab(t, false)
	thief, victim := l.nodes[0].pod("thief", blue, "192.168.0.2"), l.nodes[0].pod("victim", blue, "192.168.0.3")
	thief6, victim6 := l.nodes[0].pod("thief6", blue6, "fd12::2"), l.nodes[0].pod("victim6", blue6, "fd12::3")
	advertisement := make([]byte, 24)
	advertisement[0] = 136
	copy(advertisement[8:], victim6.ip.AsSlice())
	solicitation := make([]byte, 24)
	solicitation[0] = 135
	copy(solicitation[8:], victim6.ip.AsSlice())
	for _, tt := range []struct {
		name, reason string
		from         *pod
		frame        []byte
	}{
		{"another pod's MAC address", "mac", thief, frame(victim.mac, victim.mac, unix.ETH_P_IP, udp4(thief.ip, victim.ip)...)},
		{"the gateway's MAC address", "mac", thief, frame(victim.mac, dataplane.GatewayMAC(blue.vni), unix.ETH_P_IP, udp4(thief.ip, victim.ip)...)},
		{"another IP address", "ip", thief, frame(victim.mac, thief.mac, unix.ETH_P_IP, udp4(addr("192.168.0.77"), victim.ip)...)},
		{"no IP address", "ip", thief, frame(victim.mac, thief.mac, unix.ETH_P_IP, udp4(addr("0.0.0.0"), victim.ip)...)},
		{"IPv6 on an IPv4 Network", "ip", thief, frame(victim.mac, thief.mac, unix.ETH_P_IPV6, ipv6(addr("fd12::2"), victim6.ip, unix.IPPROTO_UDP, 0, 7, 0, 7, 0, 8, 0, 0)...)},
		{"ARP for the gateway", "arp", thief, frame(everybody, thief.mac, unix.ETH_P_ARP, arp(2, thief.mac, blue.gateway, blue.gateway)...)},
		{"ARP with another MAC address inside", "arp", thief, frame(everybody, thief.mac, unix.ETH_P_ARP, arp(1, victim.mac, thief.ip, thief.ip)...)},
		{"a VLAN tag", "protocol", thief, frame(victim.mac, thief.mac, unix.ETH_P_8021Q, append([]byte{0, 5, 8, 0}, udp4(thief.ip, victim.ip)...)...)},
		{"a VLAN tag of a service provider", "protocol", thief, frame(victim.mac, thief.mac, unix.ETH_P_8021AD, append([]byte{0, 5, 8, 0}, udp4(thief.ip, victim.ip)...)...)},
		{"a protocol that is not IP", "protocol", thief, frame(victim.mac, thief.mac, 0x88b5, make([]byte, 46)...)},
		{"half a header", "truncated", thief, frame(victim.mac, thief.mac, unix.ETH_P_IP, 0x45, 0, 0, 28)},
		{"to everybody", "multicast", thief, frame(everybody, thief.mac, unix.ETH_P_IP, udp4(thief.ip, addr("255.255.255.255"))...)},
		{"to nobody", "unknown", thief, frame(dataplane.MAC{0x0a, 0x58, 9, 9, 9, 9}, thief.mac, unix.ETH_P_IP, udp4(thief.ip, victim.ip)...)},
		{"an unknown address by ARP", "unknown", thief, frame(everybody, thief.mac, unix.ETH_P_ARP, arp(1, thief.mac, thief.ip, addr("192.168.9.9"))...)},
		{"a neighbour advertisement", "nd", thief6, frame(victim6.mac, thief6.mac, unix.ETH_P_IPV6, ipv6(thief6.ip, victim6.ip, unix.IPPROTO_ICMPV6, advertisement...)...)},
		{"a router advertisement", "nd", thief6, frame(victim6.mac, thief6.mac, unix.ETH_P_IPV6, ipv6(thief6.ip, victim6.ip, unix.IPPROTO_ICMPV6, 134, 0, 0, 0)...)},
		{"a redirect", "nd", thief6, frame(victim6.mac, thief6.mac, unix.ETH_P_IPV6, ipv6(thief6.ip, victim6.ip, unix.IPPROTO_ICMPV6, 137, 0, 0, 0)...)},
		{"a router advertisement in a first fragment", "nd", thief6, frame(victim6.mac, thief6.mac, unix.ETH_P_IPV6, ipv6(thief6.ip, victim6.ip, unix.IPPROTO_FRAGMENT, unix.IPPROTO_ICMPV6, 0, 0, 1, 0, 0, 0, 9, 134, 0, 0, 0)...)},
		{"a solicitation with another's address", "nd", thief6, frame(victim6.mac, thief6.mac, unix.ETH_P_IPV6, ipv6(addr("fd12::9"), victim6.ip, unix.IPPROTO_ICMPV6, solicitation...)...)},
		{"an advertisement behind an extension header", "extension", thief6, frame(victim6.mac, thief6.mac, unix.ETH_P_IPV6,
			ipv6(thief6.ip, victim6.ip, unix.IPPROTO_DSTOPTS, append([]byte{unix.IPPROTO_ICMPV6, 0, 1, 4, 0, 0, 0, 0}, advertisement...)...)...)},
		{"an extension header in a fragment", "extension", thief6, frame(victim6.mac, thief6.mac, unix.ETH_P_IPV6,
			ipv6(thief6.ip, victim6.ip, unix.IPPROTO_FRAGMENT, unix.IPPROTO_DSTOPTS, 0, 0, 1, 0, 0, 0, 9, unix.IPPROTO_ICMPV6, 0, 1, 4, 0, 0, 0, 0)...)},
		{"another IPv6 address", "ip", thief6, frame(victim6.mac, thief6.mac, unix.ETH_P_IPV6, ipv6(addr("fd12::9"), victim6.ip, unix.IPPROTO_UDP, 0, 7, 0, 7, 0, 8, 0, 0)...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := tt.from.node
			before, all := n.dropped(tt.reason), n.drops()
			for range 10 {
				must(t, send(tt.from.ns, "net1", tt.frame))
			}
			if got := n.dropped(tt.reason) - before; got < 10 { // the pod's kernel sends to groups, too
				t.Errorf("%d of 10 were dropped as %s; before: %s; after: %s", got, tt.reason, all, n.drops())
			}
		})
	}
}

// Two Networks with one CIDR do not hear each other, on one node and over two.
func TestNetworksAreIsolated(t *testing.T) {
	l := newLab(t, false)
	blue1, green1 := l.nodes[0].pod("blue1", blue, "192.168.0.2"), l.nodes[0].pod("green1", green, "192.168.0.2")
	blue2, green2 := l.nodes[1].pod("blue2", blue, "192.168.0.3"), l.nodes[1].pod("green2", green, "192.168.0.3")
	l.nodes[1].pod("lonely", green, "192.168.0.4")
	for _, p := range l.pods {
		p.listen()
	}
	for _, tt := range []struct {
		from *pod
		ip   string
		want string
	}{
		{blue1, "192.168.0.3", "blue2"}, {green1, "192.168.0.3", "green2"}, {blue2, "192.168.0.2", "blue1"}, {green2, "192.168.0.2", "green1"},
		{green1, "192.168.0.4", "lonely"}, {blue1, "192.168.0.4", ""},
	} {
		if got := tt.from.asks(addr(tt.ip), "?"); got != tt.want {
			t.Errorf("%s asks %s: %q answers, want %q", tt.from.name, tt.ip, got, tt.want)
		}
	}
}

// A port without an entry is closed in both directions, and opens with its entry.
func TestUnknownPortIsClosed(t *testing.T) {
	l := newLab(t, false)
	a, b := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[0].pod("b", blue, "192.168.0.3")
	a.listen()
	b.listen()
	must(t, a.p.Write(tables.Change{Key: tables.Key{Map: tables.PortMap, Port: a.port}}))
	if got := a.asks(b.ip, "?"); got != "" || a.dropped("stranger") == 0 {
		t.Errorf("%q answers; drops: %s", got, a.drops())
	}
	if got := b.asks(a.ip, "?"); got != "" {
		t.Errorf("to it: %q answers", got)
	}
	must(t, setPort(a.p, a.port, tables.Port{VNI: blue.vni, MAC: a.mac, IP: tables.AddressOf(a.ip)}))
	if got := a.asks(b.ip, "?"); got != "b" {
		t.Errorf("%q answers; drops: %s", got, a.drops())
	}
}

// An interface index that is used again gets no packets of the pod that had it before.
func TestReusedIndexInheritsNothing(t *testing.T) {
	l := newLab(t, false)
	a, b := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[0].pod("b", blue, "192.168.0.3")
	c := l.nodes[0].pod("c", green, "192.168.0.4")
	must(t, setPlace(b.p, tables.PlaceKey{VNI: blue.vni, MAC: b.mac}, tables.Place{IP: tables.AddressOf(b.ip), Interface: c.port})) // b is gone, c has its index
	before := a.dropped("unknown")
	must(t, send(a.ns, "net1", frame(b.mac, a.mac, unix.ETH_P_IP, udp4(a.ip, b.ip)...)))
	if got := a.dropped("unknown") - before; got != 1 {
		t.Errorf("%d of 1 were dropped; drops: %s", got, a.drops())
	}
}

// A raw socket of the node that sends as most programs do reaches no pod: neither through the pod's port nor
// by VXLAN to another node. VXLAN from a host that is not a node is dropped, too.
func TestInjection(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
	n1, n2 := l.nodes[0], l.nodes[1]
	inner := frame(c.mac, a.mac, unix.ETH_P_IP, udp4(a.ip, c.ip)...)

	before := n1.dropped("injected")
	must(t, send(n1.ns, "vetha", frame(a.mac, c.mac, unix.ETH_P_IP, udp4(c.ip, a.ip)...)))
	if got := n1.dropped("injected") - before; got != 1 {
		t.Errorf("onto the port: %d of 1 were dropped; drops: %s", got, n1.drops())
	}
	mac := n2.mac()
	for name, vni := range map[string]int32{"a Network of this node": blue.vni, "a Network that only other nodes have": 1 << 23} {
		before = n1.dropped("injected")
		must(t, send(n1.ns, "eth0", frame(mac, mac, unix.ETH_P_IP, vxlan(n1.ip, n2.ip, vni, inner)...)))
		if got := n1.dropped("injected") - before; got != 1 {
			t.Errorf("as VXLAN for %s: %d of 1 were dropped; drops: %s", name, got, n1.drops())
		}
	}
	must(t, in(n1.ns, func() error { _, err := Detach(int(n1.eth)); return err }))
	before = n2.dropped("vxlan")
	must(t, send(n1.ns, "eth0", frame(mac, mac, unix.ETH_P_IP, vxlan(addr("10.9.0.66"), n2.ip, blue.vni, inner)...)))
	if got := n2.dropped("vxlan") - before; got != 1 {
		t.Errorf("from no node: %d of 1 were dropped; drops: %s", got, n2.drops())
	}
}

// vxlan is an IPv4 packet that carries a frame.
func vxlan(from, to netip.Addr, vni int32, inner []byte) []byte {
	b := udp4(from, to)
	size := len(inner) + 16
	binary.BigEndian.PutUint16(b[2:], uint16(20+size))
	setChecksum(b)
	binary.BigEndian.PutUint16(b[20:], 50000)
	binary.BigEndian.PutUint16(b[22:], 4789)
	binary.BigEndian.PutUint16(b[24:], uint16(size))
	b = append(b, 8, 0, 0, 0, byte(vni>>16), byte(vni>>8), byte(vni), 0)
	return append(b, inner...)
}
