//go:build linux && kernel

package bpf

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/tables"
)

// listen answers on TCP and UDP port 7 of the pod with its name.
func (p *pod) listen() {
	p.Helper()
	must(p, in(p.ns, func() error {
		udp, err := net.ListenPacket("udp", ":7")
		if err != nil {
			return err
		}
		p.Cleanup(func() { _ = udp.Close() })
		go func() {
			b := make([]byte, 1<<16)
			for {
				size, from, err := udp.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = udp.WriteTo(append([]byte(p.name+" "), b[:size]...), from)
			}
		}()
		tcp, err := net.Listen("tcp", ":7")
		if err != nil {
			return err
		}
		p.Cleanup(func() { _ = tcp.Close() })
		go func() {
			for {
				conn, err := tcp.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
			}
		}()
		return nil
	}))
}

// asks returns the name of the pod that answers at an address over UDP within three seconds, in which the kernel asks for a
// neighbour again; "" if none does.
func (p *pod) asks(ip netip.Addr, question string) string {
	p.Helper()
	var name string
	must(p, in(p.ns, func() error {
		conn, err := net.DialTimeout("udp", netip.AddrPortFrom(ip, 7).String(), time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		b := make([]byte, 1<<16)
		for range 30 {
			_, _ = conn.Write([]byte(question))
			_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if size, err := conn.Read(b); err == nil {
				got, _, _ := bytes.Cut(b[:size], []byte(" "))
				name = string(got)
				return nil
			}
		}
		return nil
	}))
	return name
}

// sends a megabyte over TCP and reads it again.
func (p *pod) sends(ip netip.Addr) error {
	return in(p.ns, func() error {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(ip, 7).String(), 3*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		message := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		go func() { _, _ = conn.Write(message) }()
		_, err = io.ReadFull(conn, make([]byte, len(message)))
		return err
	})
}

// Pods reach each other on one node and on two, over UDP and TCP. The Network and the network of
// the nodes can be of either family.
func TestPodsReachEachOther(t *testing.T) {
	for _, tt := range []struct {
		name     string
		overIPv6 bool
		network  testNetwork
		ips      [3]string
	}{
		{"IPv4", false, blue, [3]string{"192.168.0.2", "192.168.0.3", "192.168.0.4"}},
		{"IPv6", false, blue6, [3]string{"fd12::2", "fd12::3", "fd12::4"}},
		{"IPv4 between nodes with IPv6", true, blue, [3]string{"192.168.0.2", "192.168.0.3", "192.168.0.4"}},
		{"IPv6 between nodes with IPv6", true, blue6, [3]string{"fd12::2", "fd12::3", "fd12::4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, tt.overIPv6)
			a, b, c := l.nodes[0].pod("a", tt.network, tt.ips[0]), l.nodes[0].pod("b", tt.network, tt.ips[1]), l.nodes[1].pod("c", tt.network, tt.ips[2])
			for _, p := range l.pods {
				p.listen()
			}
			for _, from := range []*pod{a, b, c} {
				for _, to := range []*pod{a, b, c} {
					if from == to {
						continue
					}
					if got := from.asks(to.ip, "?"); got != to.name {
						t.Errorf("%s asks %s over UDP: %q answers; drops on node1: %s, on node2: %s", from.name, to.name, got, l.nodes[0].drops(), l.nodes[1].drops())
						continue
					}
					if err := from.sends(to.ip); err != nil {
						t.Errorf("%s sends to %s over TCP: %v; drops on node1: %s, on node2: %s", from.name, to.name, err, l.nodes[0].drops(), l.nodes[1].drops())
					}
				}
			}
		})
	}
}

// Before Linux 6.4, IPv6 packets go through the VXLAN device of the receiver.
func TestDeviceTakesIPv6(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue6, "fd12::2"), l.nodes[1].pod("c", blue6, "fd12::3")
	c.listen()
	n := l.nodes[1]
	must(t, in(n.ns, func() error { _, err := Detach(int(n.eth)); return err })) // as if its program left the packets
	if got := a.asks(c.ip, "?"); got != "c" {
		t.Errorf("%q answers; drops on node1: %s, on node2: %s", got, l.nodes[0].drops(), n.drops())
	}
	if err := a.sends(c.ip); err != nil {
		t.Errorf("over TCP: %v", err)
	}
	if n.received() == 0 {
		t.Error("the device received nothing: the programs took the packets")
	}
}

// VXLAN in fragments passes through the device, too, and only as a whole.
func TestDeviceTakesFragments(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
	n := l.nodes[1]
	must(t, in(l.nodes[0].ns, func() error { _, err := Detach(int(l.nodes[0].eth)); return err })) // its programs would drop the fragments
	var socket net.PacketConn
	must(t, in(c.ns, func() (err error) { socket, err = net.ListenPacket("udp", ":7"); return err }))
	defer socket.Close()
	parts := fragments(vxlan(l.nodes[0].ip, n.ip, blue.vni, frame(c.mac, a.mac, unix.ETH_P_IP, udp4(a.ip, c.ip)...)), 40)
	for i, want := range []bool{false, true} {
		must(t, send(l.nodes[0].ns, "eth0", frame(n.mac(), n.mac(), unix.ETH_P_IP, parts[i]...)))
		must(t, socket.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		if _, _, err := socket.ReadFrom(make([]byte, 9)); (err == nil) != want {
			t.Errorf("after %d of 2 fragments: %v; drops: %s", i+1, err, n.drops())
		}
	}
}

// Without an IPv4 address in the configuration, and without an interface that leads to a node, the
// device sends over IPv4, and to_wire lets its packets pass.
func TestDeviceSends(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(n, to *node) error
	}{
		{"no address", func(n, _ *node) error { return n.p.SetConfig(tables.Config{VXLAN: n.vxlan, UDPPort: 4789}) }},
		{"no interface", func(n, to *node) error { return setNode(n.p, to.ip, tables.Wire{}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, false)
			a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
			c.listen()
			must(t, tt.change(a.node, c.node))
			if got := a.asks(c.ip, "?"); got != "c" {
				t.Errorf("%q answers; drops on node1: %s, on node2: %s", got, a.drops(), c.drops())
			}
			if err := a.sends(c.ip); err != nil {
				t.Errorf("over TCP: %v", err)
			}
		})
	}
}

// A pod's own VXLAN tunnel reaches a pod on another node. The helper that adds the outer headers
// refuses a packet that is encapsulated already, so the device sends it.
func TestDeviceSendsTunnels(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
	inside := []netip.Addr{addr("172.30.0.1"), addr("172.30.0.2")}
	for i, p := range []*pod{a, c} {
		other := []*pod{c, a}[i]
		must(t, in(p.ns, func() error {
			tunnel := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "tunnel"}, VxlanId: 5, Group: other.ip.AsSlice(), SrcAddr: p.ip.AsSlice(), Port: 8472}
			if err := netlink.LinkAdd(tunnel); err != nil {
				return err
			}
			if err := addAddress("tunnel", netip.PrefixFrom(inside[i], 24)); err != nil {
				return err
			}
			return up("tunnel")
		}))
	}
	c.listen()
	if got := a.asks(inside[1], "?"); got != "c" {
		t.Errorf("%q answers; drops on node1: %s, on node2: %s", got, a.drops(), c.drops())
	}
	if err := a.sends(inside[1]); err != nil {
		t.Errorf("over TCP: %v", err)
	}
}
