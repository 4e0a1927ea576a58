//go:build linux && kernel

package node

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// secondWire connects the nodes by eth1 too, with the addresses 10.7.0.1 and 10.7.0.2.
func (l *lab) secondWire() {
	l.Helper()
	l.in("wire", func() error { return addUp(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}) })
	for i, n := range l.nodes {
		l.in("wire", func() error {
			br, err := netlink.LinkByName("br1")
			if err != nil {
				return err
			}
			return addUp(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "x-" + n.name, MasterIndex: br.Attrs().Index}, PeerName: "eth1", PeerNamespace: netlink.NsFd(l.namespaces[n.name])})
		})
		l.in(n.name, func() error {
			for _, of := range []string{"all", "eth0", "eth1"} {
				if err := setSysctl("net.ipv4.conf."+of+".rp_filter", "0"); err != nil {
					return err
				}
			}
			if err := addressOn("eth1", netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 7, 0, byte(i + 1)}), 24)); err != nil {
				return err
			}
			return up("eth1")
		})
	}
}

// Packets of nodes arrive by the interface that leads back to their sender, unless the
// option allows others. Here node2 sends to node1 by a second wire, and node1 by the first. The
// programs on the first wire do not take such packets.
func TestAsymmetricRoutes(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	l.secondWire()
	l.route("node2", "eth1", only(l.nodes[0].address), addr("10.7.0.1"))
	l.nodes[1].step(true)
	blue[0].reaches(blue[1].ip, "")
	if l.nodes[1].filtered("vxlan") == 0 {
		t.Error("node2 counted nothing")
	}
	l.state.VXLANReversePathFilter = false
	l.sync()
	blue[0].reaches(blue[1].ip, "blue2")
}

// The route to a node moves to another interface. The next full sync finds it.
func TestRouteToNodeMoves(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	l.secondWire()
	for i, n := range l.nodes {
		l.route(n.name, "eth1", only(l.nodes[1-i].address), netip.AddrFrom4([4]byte{10, 7, 0, byte(2 - i)}))
		n.step(true)
	}
	wire := l.capture("wire", "w-node1")
	blue[0].reaches(blue[1].ip, "blue2")
	if got := inner(wire()); len(got) > 0 {
		t.Errorf("on the first wire: %s", got)
	}
}

// An entry that follows a moved route does not count: no other program changed it.
func TestMovedRouteIsNoRepair(t *testing.T) {
	t.Parallel()
	l, _, _ := twoByTwo(t)
	l.secondWire()
	l.route("node1", "eth1", only(l.nodes[1].address), addr("10.7.0.2"))
	if _, changes := l.nodes[0].step(true); changes != 0 {
		t.Errorf("%d entries differed", changes)
	}
}

// All nodes must choose the same port. The next agent of a node may have another one: nodes
// with the new port reach each other, and do not reach the others.
func TestAnotherPort(t *testing.T) {
	t.Parallel()
	for _, wire := range []netip.Prefix{ipv4.wire, ipv6.wire} {
		t.Run(wire.String(), func(t *testing.T) {
			t.Parallel()
			l, blue, _ := ipv4.twoByTwoOn(newLabOn(t, 2, wire))
			l.state.UDPPort = 8473
			l.nodes[0].restart()
			blue[0].reaches(blue[1].ip, "")
			l.nodes[1].restart()
			blue[0].reaches(blue[1].ip, "blue2")
		})
	}
}

// restart the agent.
func (n *labNode) restart() {
	n.Helper()
	n.stop()
	n.start()
	n.sync()
}

// A host on one wire that sends with the address of a node on another wire is not taken for it.
func TestForgedNodeOfAnotherWire(t *testing.T) {
	t.Parallel()
	l, blue, _ := ipv4.twoByTwoOn(newLab(t, 3))
	l.secondWire()
	l.route("node2", "eth1", only(addr("10.9.0.3")), addr("10.7.0.3"))
	l.nodes[1].step(true)
	arrives := blue[1].listen(":9")
	l.give("world", "eth0", only(addr("10.9.0.3"))) // on the first wire
	conn, err := l.dial("world", "udp", "10.9.0.2:4789", &net.UDPAddr{IP: net.IP{10, 9, 0, 3}})
	must(t, err)
	_, err = conn.Write(inVXLAN(blue[0], blue[1], udp4(blue[0].ip, blue[1].ip, 9, "forged")))
	must(t, err)
	if got := arrives(silence); got != "" {
		t.Errorf("the pod got %q", got)
	}
}

// Packets to the port of VXLAN on hosts that are not nodes pass with any content.
func TestPortOfVXLANElsewhereWithAnything(t *testing.T) {
	t.Parallel()
	l, _, _ := twoByTwo(t)
	l.nodes[0].plain("plain")
	var inbox net.PacketConn
	l.in("world", func() (err error) { inbox, err = net.ListenPacket("udp4", ":4789"); return err })
	defer inbox.Close()
	for _, tt := range []struct {
		name, from string
		content    []byte
	}{
		{"a short packet of a pod", "plain", []byte("?")},
		{"a short packet of the node", "node1", []byte("?")},
		{"VXLAN of a pod, with a number that the controller could assign", "plain", binary.BigEndian.AppendUint32([]byte{0x08, 0, 0, 0}, 70077<<8)},
	} {
		conn, err := l.dial(tt.from, "udp", "10.9.0.100:4789", nil)
		must(t, err)
		_, err = conn.Write(tt.content)
		must(t, err)
		_ = inbox.SetReadDeadline(time.Now().Add(patience))
		if _, _, err := inbox.ReadFrom(make([]byte, 100)); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// A program in the node's own network cannot send VXLAN for a Network over IPv6 either.
func TestNoInjectionOverIPv6(t *testing.T) {
	t.Parallel()
	l, blue, _ := ipv4.twoByTwoOn(newLabOn(t, 2, ipv6.wire))
	arrives := blue[1].listen(":9")
	conn, err := l.dial("node1", "udp", netip.AddrPortFrom(l.nodes[1].address, 4789).String(), nil)
	must(t, err)
	_, _ = conn.Write(inVXLAN(blue[0], blue[1], udp4(blue[0].ip, blue[1].ip, 9, "injected")))
	if got := arrives(silence); got != "" {
		t.Errorf("the pod got %q", got)
	}
}
