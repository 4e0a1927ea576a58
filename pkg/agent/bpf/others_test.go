//go:build linux && kernel

package bpf

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Verdicts of programs. They have these numbers in clsact filters (TC_ACT_UNSPEC, TC_ACT_OK, TC_ACT_SHOT) and in tcx
// programs (TCX_NEXT, TCX_PASS, TCX_DROP).
const next, accept, shot = -1, 0, 2

// directions of an interface, as clsact and tcx name them.
var directions = map[uint32]ebpf.AttachType{netlink.HANDLE_MIN_INGRESS: ebpf.AttachTCXIngress, netlink.HANDLE_MIN_EGRESS: ebpf.AttachTCXEgress}

// tcx attaches a program with this verdict to both directions of an interface. The kernel runs it before all
// clsact filters.
func tcx(t testing.TB, ns netns.NsHandle, dev string, verdict int32) {
	t.Helper()
	program := newProgram(t, asm.Mov.Imm(asm.R0, verdict), asm.Return())
	must(t, in(ns, func() error {
		index, err := indexOf(dev)
		if err != nil {
			return err
		}
		for _, direction := range directions {
			attached, err := link.AttachTCX(link.TCXOptions{Interface: int(index), Program: program, Attach: direction, Anchor: link.Tail()})
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = attached.Close() })
		}
		return nil
	}))
}

// clsact attaches filters with a priority, in the same way as tcx.
func clsact(priority uint16) func(testing.TB, netns.NsHandle, string, int32) {
	return func(t testing.TB, ns netns.NsHandle, dev string, verdict int32) {
		t.Helper()
		for direction := range directions {
			attachFilter(t, ns, dev, direction, priority, asm.Mov.Imm(asm.R0, verdict), asm.Return())
		}
	}
}

// redirectAll IPv4 packets that arrive at an interface to another one, past the routes and filters of the node, as Cilium
// and Calico do with packets of their pods.
func redirectAll(t testing.TB, ns netns.NsHandle, dev string, to uint32) {
	t.Helper()
	const protocol = 16 // in struct __sk_buff
	attachCode(t, ns, dev, netlink.HANDLE_MIN_INGRESS,
		asm.Mov.Imm(asm.R0, next), asm.LoadMem(asm.R2, asm.R1, protocol, asm.Word), asm.JNE.Imm(asm.R2, 8, "end"),
		asm.Mov.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, 0), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0), asm.FnRedirectNeigh.Call(),
		asm.Return().WithSymbol("end"))
}

// Programs of others on the interface that leads to other nodes change nothing if the agent's run first: by tcx, or as
// filters with a lower number. If others accept packets first, packets between pods take the VXLAN device, and to_wire
// does not see VXLAN that leaves the node. VXLAN of a host that is not a node never reaches a pod.
func TestProgramsOfOthers(t *testing.T) {
	const (
		works   = "packets of pods: the short way, forged by the node: dropped"
		behind  = "packets of pods: the device, forged by the node: received"
		nothing = "packets of pods: lost, forged by the node: dropped"
	)
	accepted := works
	if !isLinux(t, 6, 6) {
		accepted = behind
	}
	for _, tt := range []struct {
		name    string
		minor   int // of the first Linux 6 that has it
		attach  func(testing.TB, netns.NsHandle, string, int32)
		verdict int32
		want    string
	}{
		{"clsact, first priority, next", 1, clsact(1), next, works},
		{"clsact, first priority, accept", 1, clsact(1), accept, accepted},
		{"clsact, first priority, drop", 1, clsact(1), shot, nothing},
		{"clsact, priority of the kernel, next", 1, clsact(49152), next, works},
		{"clsact, priority of the kernel, accept", 1, clsact(49152), accept, works},
		{"clsact, priority of the kernel, drop", 1, clsact(49152), shot, nothing},
		{"tcx, next", 6, tcx, next, works},
		{"tcx, accept", 6, tcx, accept, works},
		{"tcx, drop", 6, tcx, shot, nothing},
	} {
		if !isLinux(t, 6, tt.minor) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, false)
			a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
			n1, n2 := l.nodes[0], l.nodes[1]
			for _, n := range l.nodes {
				tt.attach(t, n.ns, "eth0", tt.verdict)
			}
			conn, way, wait := a.dial(c.ip), "lost", 10*time.Second
			if tt.verdict == shot {
				wait = time.Second
			}
			if len(c.receives(1, wait, func() { _, _ = conn.Write([]byte("?")) })) == 1 {
				way = map[bool]string{false: "the short way", true: "the device"}[n2.received() > 0]
			}
			forge := func(from netip.Addr) {
				inner := frame(c.mac, a.mac, unix.ETH_P_IP, udp4(a.ip, c.ip)...)
				must(t, send(n1.ns, "eth0", frame(n2.mac(), n1.mac(), unix.ETH_P_IP, vxlan(from, n2.ip, blue.vni, inner)...)))
			}
			forged := map[bool]string{false: "dropped", true: "received"}[len(c.receives(1, 400*time.Millisecond, func() { forge(n1.ip) })) == 1]
			if got := "packets of pods: " + way + ", forged by the node: " + forged; got != tt.want {
				t.Errorf("got  %s\nwant %s; drops on node1: %s, on node2: %s", got, tt.want, n1.drops(), n2.drops())
			}
			if tt.verdict == shot {
				return
			}
			c.listen()
			if err := a.sends(c.ip); err != nil {
				t.Errorf("over TCP: %v", err)
			}
			must(t, in(n1.ns, func() error { _, err := Detach(int(n1.eth)); return err }))
			forge(addr("10.9.0.66"))
			if got := n2.dropped("vxlan"); got != 1 {
				t.Errorf("from no node: %d of 1 were dropped; drops: %s", got, n2.drops())
			}
		})
	}
}

// Packets of another network pass the agent's programs on the interface that leads to other nodes. That network's
// own interfaces have programs, too.
func TestPacketsOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		minor  int
		attach func(n *node)
	}{
		{"no program", 1, func(*node) {}},
		{"clsact, accept", 1, func(n *node) { clsact(1)(t, n.ns, "other", accept) }},
		{"clsact, redirect", 1, func(n *node) { redirectAll(t, n.ns, "other", n.eth) }},
		{"tcx, accept", 6, func(n *node) { tcx(t, n.ns, "other", accept) }},
	} {
		if !isLinux(t, 6, tt.minor) {
			continue
		}
		l := newLab(t, false)
		a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
		n1, n2 := l.nodes[0], l.nodes[1]
		other := n1.otherPod()
		tt.attach(n1)
		must(t, in(n2.ns, func() error {
			return netlink.RouteAdd(&netlink.Route{Dst: netlink.NewIPNet(other.ip.AsSlice()), Gw: n1.ip.AsSlice()})
		}))
		(&pod{node: n2, name: "node2", ns: n2.ns}).listen()
		c.listen()
		if got := other.asks(n2.ip, "?"); got != "node2" {
			t.Errorf("%s: %q answers the other network; drops on node1: %s, on node2: %s", tt.name, got, n1.drops(), n2.drops())
		}
		if got := a.asks(c.ip, "?"); got != "c" {
			t.Errorf("%s: %q answers the pod; drops on node1: %s, on node2: %s", tt.name, got, n1.drops(), n2.drops())
		}
	}
}
