//go:build linux && kernel

package bpf

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// tcIndex is the offset of tc_index in struct __sk_buff.
const tcIndex = 44

// attachCode to an interface, as a clsact filter of the first priority, as a program with all rights in the namespace can.
func attachCode(t testing.TB, ns netns.NsHandle, dev string, parent uint32, code ...asm.Instruction) {
	t.Helper()
	attachFilter(t, ns, dev, parent, 1, code...)
}

func attachFilter(t testing.TB, ns netns.NsHandle, dev string, parent uint32, priority uint16, code ...asm.Instruction) {
	t.Helper()
	program := newProgram(t, code...)
	must(t, in(ns, func() error {
		index, err := indexOf(dev)
		if err != nil {
			return err
		}
		if err := (qdiscs{}).addClsact(int(index)); err != nil {
			return err
		}
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: int(index), Parent: parent, Handle: 1, Priority: priority, Protocol: unix.ETH_P_ALL},
			Fd:          program.FD(), Name: "test", DirectAction: true,
		})
	}))
}

func newProgram(t testing.TB, code ...asm.Instruction) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: code, License: "Apache-2.0"})
	must(t, err)
	t.Cleanup(func() { _ = program.Close() })
	return program
}

// markAll packets that leave an interface as by_device does.
func markAll(t testing.TB, ns netns.NsHandle, dev string) {
	t.Helper()
	attachCode(t, ns, dev, netlink.HANDLE_MIN_EGRESS,
		asm.Mov.Imm(asm.R2, 0x706f), asm.StoreMem(asm.R1, tcIndex, asm.R2, asm.Word), asm.Mov.Imm(asm.R0, -1), asm.Return())
}

// A mark that a pod sets on its packets ends at its port.
func TestMarkEndsAtPort(t *testing.T) {
	l := newLab(t, false)
	a, b := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[0].pod("b", blue, "192.168.0.3")
	b.listen()
	markAll(t, a.ns, "net1")
	attachCode(t, b.ns, "net1", netlink.HANDLE_MIN_INGRESS, // drops marked packets
		asm.LoadMem(asm.R2, asm.R1, tcIndex, asm.Word), asm.Mov.Imm(asm.R0, 2), asm.JEq.Imm(asm.R2, 0x706f, "end"), asm.Mov.Imm(asm.R0, -1),
		asm.Return().WithSymbol("end"))
	if got := a.asks(b.ip, "?"); got != "b" {
		t.Errorf("%q answers", got)
	}
}

// otherPod is a pod of another network on the node, with the address 10.5.0.2. The node forwards its packets. On the
// node, its interface is "other".
func (n *node) otherPod() *pod {
	n.Helper()
	p := &pod{node: n, name: "other", ns: newNamespace(n.TB), ip: addr("10.5.0.2")}
	must(n, in(n.ns, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "other"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(p.ns)}); err != nil {
			return err
		}
		if err := addAddress("other", netip.MustParsePrefix("10.5.0.1/24")); err != nil {
			return err
		}
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
			return err
		}
		link, err := netlink.LinkByName("other")
		if err == nil {
			copy(p.mac[:], link.Attrs().HardwareAddr) // of the next hop
		}
		return errors.Join(err, up("other"))
	}))
	must(n, in(p.ns, func() error {
		if err := addAddress("eth0", netip.PrefixFrom(p.ip, 24)); err != nil {
			return err
		}
		return errors.Join(up("eth0"), netlink.RouteAdd(&netlink.Route{Gw: net.IPv4(10, 5, 0, 1)}))
	}))
	return p
}

// A pod of another network cannot send VXLAN through the node, whether it marks it or not, and whether
// the node or a program at the pod's interface forwards it.
func TestForwardedVXLAN(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
	n1, n2, other := l.nodes[0], l.nodes[1], l.nodes[0].otherPod()
	forged := frame(other.mac, other.mac, unix.ETH_P_IP, vxlan(other.ip, n2.ip, blue.vni, frame(c.mac, a.mac, unix.ETH_P_IP, udp4(a.ip, c.ip)...))...)
	for _, tt := range []struct {
		name    string
		prepare func()
	}{
		{"as it is", func() {}},
		{"marked", func() { markAll(t, other.ns, "eth0") }},
		{"marked, and forwarded by a program", func() { redirectAll(t, n1.ns, "other", n1.eth) }},
	} {
		tt.prepare()
		before := n1.dropped("injected")
		must(t, send(other.ns, "eth0", forged))
		for limit := time.Now().Add(3 * time.Second); n1.dropped("injected") == before && time.Now().Before(limit); {
			time.Sleep(10 * time.Millisecond) // the node looks for its neighbour
		}
		if got := n1.dropped("injected") - before; got != 1 {
			t.Errorf("%s: %d of 1 were dropped; drops on node1: %s, on node2: %s", tt.name, got, n1.drops(), n2.drops())
		}
	}
}

// from_wire leaves a packet of another VLAN to the node, and neither takes nor counts it.
func TestTaggedVXLAN(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
	n1, n2 := l.nodes[0], l.nodes[1]
	packet := vxlan(addr("10.9.0.66"), n2.ip, blue.vni, frame(c.mac, a.mac, unix.ETH_P_IP, udp4(a.ip, c.ip)...))
	must(t, in(n1.ns, func() error { _, err := Detach(int(n1.eth)); return err }))
	for i, vlan := range []byte{5, 0} { // 0: of no VLAN, so the node takes it, and the VXLAN device
		must(t, send(n1.ns, "eth0", frame(n2.mac(), n1.mac(), unix.ETH_P_8021Q, append([]byte{0, vlan, 8, 0}, packet...)...)))
		if got := n2.dropped("vxlan"); got != uint64(i) {
			t.Errorf("after VLAN %d: %d were dropped, want %d; drops: %s", vlan, got, i, n2.drops())
		}
	}
}

// A raw socket can hide VXLAN neither behind another protocol nor behind tags that a receiver takes off.
func TestHiddenVXLAN(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
	n1, n2 := l.nodes[0], l.nodes[1]
	packet := vxlan(n1.ip, n2.ip, blue.vni, frame(c.mac, a.mac, unix.ETH_P_IP, udp4(a.ip, c.ip)...))
	tagged := func(count int) []byte {
		tags := bytes.Repeat([]byte{0x81, 0, 0, 0}, count)
		return append(frame(n2.mac(), n1.mac(), 0)[:12], append(append(tags, 8, 0), packet...)...)
	}
	for _, tt := range []struct {
		name     string
		protocol uint16
		frame    []byte
	}{
		{"ARP", unix.ETH_P_ARP, tagged(0)},
		{"IPv6", unix.ETH_P_IPV6, tagged(0)},
		{"a tag", 0, tagged(1)},
		{"a tag, as IP", unix.ETH_P_IP, tagged(1)},
		{"four tags", 0, tagged(4)},
		{"nine tags", 0, tagged(9)},
	} {
		before := n1.dropped("injected")
		must(t, sendAs(n1.ns, "eth0", tt.protocol, tt.frame))
		if got := n1.dropped("injected") - before; got != 1 {
			t.Errorf("%s: %d of 1 were dropped; drops on node1: %s, on node2: %s", tt.name, got, n1.drops(), n2.drops())
		}
	}
}

// A program of the node cannot send VXLAN with another node's address to its own node, even if its socket
// skips tc for packets that leave.
func TestLoopback(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
	n1, n2 := l.nodes[0], l.nodes[1]
	forged := vxlan(n1.ip, n2.ip, blue.vni, frame(c.mac, a.mac, unix.ETH_P_IP, udp4(a.ip, c.ip)...))
	for _, tt := range []struct {
		name     string
		family   int
		protocol int
		bypass   bool
		packet   []byte
		to       unix.Sockaddr
	}{
		{"IP", unix.AF_INET, unix.IPPROTO_RAW, false, forged, &unix.SockaddrInet4{Addr: n2.ip.As4()}},
		{"a frame", unix.AF_PACKET, 0, true, frame(dataplane.MAC{}, dataplane.MAC{}, unix.ETH_P_IP, forged...), &unix.SockaddrLinklayer{Ifindex: loopback, Halen: 6}},
	} {
		before := n2.dropped("injected")
		got := c.receives(1, 400*time.Millisecond, func() {
			must(t, in(n2.ns, func() error {
				socket, err := unix.Socket(tt.family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, tt.protocol)
				if err != nil {
					return err
				}
				defer unix.Close(socket)
				if tt.bypass {
					if err := unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
						return err
					}
				}
				return unix.Sendto(socket, tt.packet, 0, tt.to)
			}))
		})
		if dropped := n2.dropped("injected") - before; len(got) > 0 || dropped != 1 {
			t.Errorf("%s: the pod receives %v; drops: %s", tt.name, got, n2.drops())
		}
	}
}
