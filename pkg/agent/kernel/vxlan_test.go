//go:build linux && kernel

package kernel

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Conntrack of a node does not follow VXLAN. Otherwise it would have an entry for each
// connection of pods, because each has its own source port.
func TestVXLANIsNotTracked(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	blue[0].reaches(blue[1].ip, "blue2")
	for _, n := range c.nodes {
		if tracked := n.tracked(); strings.Contains(tracked, "dport=4789") {
			t.Errorf("%s tracks\n%s", n.name, tracked)
		}
	}
}

// udp4 is a UDP packet without a checksum, which IPv4 allows.
func udp4(from, to netip.Addr, port uint16, content string) []byte {
	b := []byte{0x45, 0, 0, byte(28 + len(content)), 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	b = binary.BigEndian.AppendUint16(append(b, 0x10, 0), port)
	return append(append(b, 0, byte(8+len(content)), 0, 0), content...)
}

// inVXLAN wraps a packet as a node would, to deliver it to one pod in another's name.
func inVXLAN(from, to *pod, packet []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0x08, 0, 0, 0}, uint32(to.network.VNI)<<8)
	b = append(append(b, to.mac[:]...), from.mac[:]...)
	return append(append(b, 0x08, 0x00), packet...)
}

// masquerade the packets that a node forwards, as the cluster's own network does.
func masquerade() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "others"})
	chain := conn.AddChain(&nftables.Chain{Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
	return conn.Flush()
}

// plain is a pod of the cluster's own network, behind its node's address, with routes to
// all addresses.
func (n *node) plain(name string) {
	n.Helper()
	n.others(name)
	gateways := []netip.Prefix{netip.MustParsePrefix("172.16.0.254/24"), netip.MustParsePrefix("fd0b::fe/64")}
	n.in(n.name, func() {
		for _, g := range gateways {
			n.addressOn("docker0", g)
		}
		for _, err := range []error{masquerade(), setSysctl(dataplane.Sysctl{Name: "net.ipv6.conf.all.forwarding", Value: "1"})} {
			if err != nil {
				n.Error(err)
			}
		}
	})
	n.in(name, func() {
		n.addressOn("eth0", netip.MustParsePrefix("fd0b::1/64"))
		for _, g := range gateways {
			index, err := indexOf("eth0")
			if err == nil {
				err = netlink.RouteAdd(&netlink.Route{LinkIndex: index, Gw: g.Addr().AsSlice()})
			}
			if err != nil {
				n.Errorf("route of %s: %v", name, err)
			}
		}
	})
}

// VXLAN does not authenticate senders, so only packets of nodes may get into a Network. A
// pod of the cluster's own network may get the address of its node. Its packets are stopped
// at that node. If they are for an unlisted address of a node, the other node stops them.
// Forging the address of a node does not help the pod.
func TestOnlyNodesSendVXLAN(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	here, there := c.nodes[0], c.nodes[1]
	here.plain("plain")
	c.alsoIPv6()
	c.in("node2", func() { c.addressOn("eth0", netip.MustParsePrefix("10.9.0.22/24")) }) // not listed
	forged := dataplane.Node{Name: "node3", Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.3"), netip.MustParseAddr("fd0a::3")}}
	c.state.Nodes = append(c.state.Nodes, forged)
	for _, ip := range forged.Addresses {
		c.in("plain", func() { c.addressOn("eth0", netip.PrefixFrom(ip, ip.BitLen())) })
	}
	c.sync()
	for _, tt := range []struct {
		name, from, as, to string
		victim             *pod
		drops              *node // nil: it is delivered
	}{
		{"a node", "node1", "10.9.0.1", "10.9.0.2", blue[1], nil},
		{"a stranger on the wire", "world", "10.9.0.100", "10.9.0.2", blue[1], there},
		{"a stranger on the wire, IPv6", "world", ipv6.world().String(), "fd0a::2", blue[1], there},
		{"a pod, to another node", "plain", "172.16.0.1", "10.9.0.2", blue[1], here},
		{"a pod, to another node, IPv6", "plain", "fd0b::1", "fd0a::2", blue[1], here},
		{"a pod, to another node's other address", "plain", "172.16.0.1", "10.9.0.22", blue[1], there},
		{"a pod, to its own node", "plain", "172.16.0.1", "10.9.0.1", blue[0], here},
		{"a pod, to its own node, IPv6", "plain", "fd0b::1", "fd0a::1", blue[0], here},
		{"a pod, to its own node's other address", "plain", "172.16.0.1", "172.16.0.254", blue[0], here},
		{"a pod as a node, to another node", "plain", "10.9.0.3", "10.9.0.2", blue[1], here},
		{"a pod as a node, to its own", "plain", "10.9.0.3", "10.9.0.1", blue[0], here},
		{"a pod as a node, to its own, IPv6", "plain", "fd0a::3", "fd0a::1", blue[0], here},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var inbox net.PacketConn
			var err error
			c.in(tt.victim.name, func() { inbox, err = net.ListenPacket("udp4", ":9") })
			must(t, err)
			defer inbox.Close()
			var before uint64
			if tt.drops != nil {
				before = tt.drops.drops("vxlan")
			}
			as := blue[0]
			if tt.victim == as {
				as = blue[1]
			}
			conn, err := c.dial(tt.from, "udp", netip.AddrPortFrom(netip.MustParseAddr(tt.to), 4789).String(),
				net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(tt.as), 0)))
			must(t, err)
			_, err = conn.Write(inVXLAN(as, tt.victim, udp4(as.ip, tt.victim.ip, 9, tt.name)))
			must(t, err)
			wait := patience
			if tt.drops != nil {
				if got := tt.drops.dropsMore("vxlan", before); got != 1 {
					t.Errorf("%s counted %d packets", tt.drops.name, got)
				}
				wait = silence
			}
			b, got := make([]byte, 100), ""
			_ = inbox.SetReadDeadline(time.Now().Add(wait))
			if size, _, err := inbox.ReadFrom(b); err == nil {
				got = string(b[:size])
			}
			if delivered := got == tt.name; delivered != (tt.drops == nil) || !delivered && got != "" {
				t.Errorf("the pod got %q", got)
			}
		})
	}
	blue[0].reaches(blue[1].ip, "blue2")
	blue[1].reaches(blue[0].ip, "blue1")
}

// Packets to that port on hosts that are not nodes are not filtered, and keep the NAT of the
// cluster's own network.
func TestPortOfVXLANElsewhere(t *testing.T) {
	c, _, _ := twoByTwo(t)
	c.nodes[0].plain("plain")
	var inbox net.PacketConn
	var err error
	c.in("world", func() { inbox, err = net.ListenPacket("udp4", ":4789") })
	must(t, err)
	defer inbox.Close()
	conn, err := c.dial("plain", "udp", "10.9.0.100:4789", nil)
	must(t, err)
	_, err = conn.Write([]byte("?"))
	must(t, err)
	_ = inbox.SetReadDeadline(time.Now().Add(patience))
	_, from, err := inbox.ReadFrom(make([]byte, 100))
	must(t, err)
	if got := host(from); got != "10.9.0.1" {
		t.Errorf("it came from %s", got)
	}
}
