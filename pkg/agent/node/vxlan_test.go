//go:build linux && kernel

package node

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// vxlanDrops of a node: of its rules, of the programs on the way in, and of those on the way out. The
// kernel's own multicasts onto ports count as injected too, without a Network.
func (n *labNode) vxlanDrops() (count uint64) {
	all, err := n.node.Drops()
	must(n, err)
	for d, c := range all {
		if d.Reason == "vxlan" || d.Reason == "injected" && d.Network != "" {
			count += c
		}
	}
	return n.filtered("vxlan") + count
}

// VXLAN does not authenticate senders, so only packets of nodes may get into a Network. A
// pod of the cluster's own network may get the address of its node. Its packets are stopped
// at that node. Forging the address of a node does not help the pod.
func TestOnlyNodesSendVXLAN(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	here, there := l.nodes[0], l.nodes[1]
	here.plain("plain")
	forged := addressed{"node3", []netip.Addr{addr("10.9.0.3"), addr("fd0a::3")}}
	l.alsoIPv6()
	l.addressed = append(l.addressed, forged)
	_, blue, _ := ipv4.twoByTwoOn(l)
	l.give("node2", "eth0", netip.MustParsePrefix("10.9.0.22/24")) // not listed
	for _, ip := range forged.addresses {
		l.give("plain", "eth0", only(ip))
	}
	arrivesAt := map[*labPod]func(time.Duration) string{blue[0]: blue[0].listen(":9"), blue[1]: blue[1].listen(":9")}
	for _, tt := range []struct {
		name, from, as, to string
		victim             *labPod
		drops              *labNode // nil: it is delivered
	}{
		{"a node that could have made it", "world", "10.9.0.3", "10.9.0.2", blue[1], nil},
		{"a program of a node", "node1", "10.9.0.1", "10.9.0.2", blue[1], here},
		{"a stranger on the wire", "world", "10.9.0.100", "10.9.0.2", blue[1], there},
		{"a stranger on the wire, IPv6", "world", "fd0a::64", "fd0a::2", blue[1], there},
		{"a pod, to another node", "plain", "172.16.0.1", "10.9.0.2", blue[1], here},
		{"a pod, to another node, IPv6", "plain", "fd0b::1", "fd0a::2", blue[1], here},
		{"a pod, to another node's other address", "plain", "172.16.0.1", "10.9.0.22", blue[1], here},
		{"a pod, to its own node", "plain", "172.16.0.1", "10.9.0.1", blue[0], here},
		{"a pod, to its own node, IPv6", "plain", "fd0b::1", "fd0a::1", blue[0], here},
		{"a pod, to its own node's other address", "plain", "172.16.0.1", "172.16.0.254", blue[0], here},
		{"a pod as a node, to another node", "plain", "10.9.0.3", "10.9.0.2", blue[1], here},
		{"a pod as a node, to its own", "plain", "10.9.0.3", "10.9.0.1", blue[0], here},
		{"a pod as a node, to its own, IPv6", "plain", "fd0a::3", "fd0a::1", blue[0], here},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.from == "world" && tt.as == "10.9.0.3" {
				l.give("world", "eth0", only(addr(tt.as)))
			}
			arrives := arrivesAt[tt.victim]
			var before uint64
			if tt.drops != nil {
				before = tt.drops.vxlanDrops()
			}
			as := blue[0]
			if tt.victim == as {
				as = blue[1]
			}
			conn, err := l.dial(tt.from, "udp", netip.AddrPortFrom(addr(tt.to), 4789).String(), net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr(tt.as), 0)))
			must(t, err)
			_, err = conn.Write(inVXLAN(as, tt.victim, udp4(as.ip, tt.victim.ip, 9, tt.name)))
			if err != nil && !strings.Contains(err.Error(), "no buffer space") { // the sender of the node gets this error
				t.Fatal(err)
			}
			wait, want := patience, tt.name
			if tt.drops != nil {
				if got := more(before, tt.drops.vxlanDrops); got != 1 {
					t.Errorf("%s counted %d packets", tt.drops.name, got)
				}
				wait, want = silence, ""
			}
			if got := arrives(wait); got != want {
				t.Errorf("the pod got %q", got)
			}
		})
	}
	blue[0].reaches(blue[1].ip, "blue2")
	blue[1].reaches(blue[0].ip, "blue1")
}

// VXLAN of others, with numbers that the controller does not assign, passes to hosts that are not
// nodes, and keeps the NAT of the cluster's own network.
func TestPortOfVXLANElsewhere(t *testing.T) {
	t.Parallel()
	l, _, _ := twoByTwo(t)
	l.nodes[0].plain("plain")
	var inbox net.PacketConn
	l.in("world", func() (err error) { inbox, err = net.ListenPacket("udp4", ":4789"); return err })
	defer inbox.Close()
	conn, err := l.dial("plain", "udp", "10.9.0.100:4789", nil)
	must(t, err)
	_, err = conn.Write(binary.BigEndian.AppendUint32([]byte{0x08, 0, 0, 0}, 4096<<8))
	must(t, err)
	_ = inbox.SetReadDeadline(time.Now().Add(patience))
	_, from, err := inbox.ReadFrom(make([]byte, 100))
	must(t, err)
	if got := host(from); got != "10.9.0.1" {
		t.Errorf("it came from %s", got)
	}
}

// A Service may lead to a node's own VXLAN port. A pod of the cluster's own network that
// uses it is not taken for a node, although its packets arrive with its node's address.
func TestNoVXLANByService(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	there := l.nodes[1]
	l.nodes[0].plain("plain")
	l.in(there.name, func() error { return nodePort(30999, netip.AddrPortFrom(there.address, 4789)) })
	arrives := blue[1].listen(":9")
	conn, err := l.dial("plain", "udp", netip.AddrPortFrom(there.address, 30999).String(), nil)
	must(t, err)
	_, err = conn.Write(inVXLAN(blue[0], blue[1], udp4(blue[0].ip, blue[1].ip, 9, "injected")))
	must(t, err)
	if got := more(0, there.vxlanDrops); got != 1 {
		t.Errorf("%d packets were dropped", got)
	}
	if got := arrives(silence); got != "" {
		t.Errorf("the pod got %q", got)
	}
}

// A container with NET_RAW in the node's own network can put a packet neither onto a pod's
// port nor onto the wire.
func TestNoInjectionByTheNode(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	n := l.nodes[0]
	own, far := blue[0].listen(":9"), blue[1].listen(":9")
	onPort := udp4(blue[1].ip, blue[0].ip, 9, "port")
	before := n.drops("injected")
	l.frame(n.name, blue[0].attachment().HostInterface(), blue[0].mac, blue[1].mac, unix.ETH_P_IP, onPort)
	onWire := udp4(n.address, l.nodes[1].address, 4789, string(inVXLAN(blue[0], blue[1], udp4(blue[0].ip, blue[1].ip, 9, "wire"))))
	l.frame(n.name, "eth0", l.macOf("node2", "eth0"), l.macOf("node1", "eth0"), unix.ETH_P_IP, onWire)
	if got := n.drops("injected") - before; got != 2 {
		t.Errorf("%d packets were dropped", got)
	}
	if got := own(silence) + far(silence); got != "" {
		t.Errorf("a pod got %q", got)
	}
}

func (l *lab) macOf(namespace, dev string) (mac dataplane.MAC) {
	l.Helper()
	l.in(namespace, func() error {
		link, err := netlink.LinkByName(dev)
		if err == nil {
			copy(mac[:], link.Attrs().HardwareAddr)
		}
		return err
	})
	return mac
}

// Another program that speaks VXLAN on another port, such as flannel, still works with our
// programs on its interface.
func TestVXLANOfOthers(t *testing.T) {
	t.Parallel()
	l, _, _ := twoByTwo(t)
	for i, n := range l.nodes {
		l.in(n.name, func() error { return otherVXLAN(8472, i, l.nodes[1-i].address) })
		l.echo(n.name, n.name)
	}
	if got := l.answer("node1", addr("10.244.9.2"), patience); got != "node2 10.244.9.1" {
		t.Errorf("got %q", got)
	}
}

// otherVXLAN device with the address 10.244.9.1 on the first node, and 10.244.9.2 on the second.
func otherVXLAN(port, i int, peer netip.Addr) error {
	if err := addUp(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vxlan.others"}, VxlanId: 4096, Port: port}); err != nil {
		return err
	}
	if err := addressOn("vxlan.others", netip.MustParsePrefix(fmt.Sprintf("10.244.9.%d/24", i+1))); err != nil {
		return err
	}
	link, err := netlink.LinkByName("vxlan.others")
	if err != nil {
		return err
	}
	return netlink.NeighAppend(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF, IP: peer.AsSlice(), HardwareAddr: make(net.HardwareAddr, 6)})
}
