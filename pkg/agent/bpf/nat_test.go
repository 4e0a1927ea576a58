//go:build linux && kernel

package bpf

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/test/chance"
)

// packets of all kinds that NAT treats, from one address to another. near is the address that an ICMP error quotes.
func packets(from, to, near netip.Addr) (all [][]byte) {
	tcp := make([]byte, 60)
	tcp[12] = 8 << 4 // 32 bytes, as with timestamps
	udp := append([]byte{0x10, 0, 0, 7, 0, 20, 1, 2}, []byte("of some use")...)
	contents := map[byte][][]byte{6: {tcp}, 17: {udp, {0x10, 0, 0, 7, 0, 9, 0, 0, 'x'}}, 33: {tcp}, 136: {udp}, 132: {tcp}, 47: {udp}, 255: {{}}}
	if from.Is6() {
		quoted := ipv6(to, near, 17, udp...)
		contents[58] = [][]byte{append([]byte{1, 4, 9, 9, 0, 0, 0, 0}, quoted...), append([]byte{2, 0, 9, 9, 0, 0, 5, 20}, ipv6(near, to, 17, udp...)...),
			append([]byte{2, 0, 9, 9, 0, 0, 5, 20}, ipv6(to, to, 17, udp...)...), {128, 0, 9, 9, 0, 1, 0, 1, 'x'}, {129, 0, 9, 9, 0, 1, 0, 1}}
	} else {
		contents[1] = [][]byte{append([]byte{3, 3, 9, 9, 0, 0, 0, 0}, udp4(to, near)...), append([]byte{3, 4, 9, 9, 0, 0, 5, 20}, udp4(near, to)...),
			append([]byte{11, 0, 9, 9, 0, 0, 0, 0}, udp4(to, to)...), {8, 0, 9, 9, 0, 1, 0, 1, 'x'}, {0, 0, 9, 9, 0, 1, 0, 1}}
	}
	for protocol, list := range contents {
		for _, content := range list {
			if from.Is6() {
				all = append(all, ipv6(from, to, protocol, content...), ipv6(from, to, 44, append([]byte{protocol, 0, 0, 1, 0, 0, 0, 9}, content...)...),
					ipv6(from, to, 44, append([]byte{protocol, 0, 1, 1, 0, 0, 0, 9}, content...)...))
				continue
			}
			for _, fragment := range []uint16{0x4000, 0x2000, 0x2010} {
				for _, options := range [][]byte{nil, {1, 1, 1, 1, 7, 7, 4, 0}} {
					b := append(append(udp4(from, to)[:20:20], options...), content...)
					b[0], b[9] = 0x45+byte(len(options)/4), protocol
					binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
					binary.BigEndian.PutUint16(b[6:], fragment)
					setChecksum(b)
					all = append(all, b)
				}
			}
		}
	}
	return all
}

// leaving are frames for the gateway.
func (w world) leaving() (all [][]byte) {
	etherType, outside := uint16(unix.ETH_P_IP), []netip.Addr{addr("203.0.113.9"), addr("198.51.100.1")}
	if w.port.IP.Addr().Is6() {
		etherType, outside = unix.ETH_P_IPV6, []netip.Addr{addr("2001:db8::9"), addr("2001:db8::10"), linkLocal(dataplane.GatewayMAC(w.vni)), addr("fe80::9")}
	}
	for _, to := range append(outside, outside[0], w.network.Gateway, ending(w.network.Gateway, 77)) {
		for _, packet := range packets(w.port.IP.Addr(), to, w.port.IP.Addr()) {
			all = append(all, frame(dataplane.GatewayMAC(w.vni), w.port.MAC, etherType, packet...))
		}
	}
	return all
}

// from_gateway decides about any frame as the model does. A test cannot give a frame the mark of to_gateway, so this
// one takes no mark for the right one.
func TestGatewayDecidesAsTheModel(t *testing.T) {
	dice := rand.New(rand.NewPCG(chance.Seed(t), 0))
	seen := map[string]int{}
	worlds := []world{newWorld(false), newWorld(true), newWorld(false)}
	worlds[2].network.Egress = false
	for _, w := range worlds {
		s, err := spec()
		must(t, err)
		marks := 0
		code := s.Programs["from_gateway"].Instructions
		for i := range code {
			if op := code[i].OpCode; op.Class().IsJump() && (op.JumpOp() == asm.JNE || op.JumpOp() == asm.JEq) && code[i].Constant == 0x7067 {
				code[i].Constant = 0
				marks++
			}
		}
		if marks != 1 {
			t.Fatalf("the mark is in %d instructions", marks)
		}
		c, err := ebpf.NewCollection(s)
		must(t, err)
		p := &Programs{Maps: Maps{maps: c.Maps}, collection: c}
		w.write(t, p)
		r := &runner{TB: t, p: p}
		var frames [][]byte
		etherType, outside := uint16(unix.ETH_P_IP), addr("203.0.113.9")
		if w.port.IP.Addr().Is6() {
			etherType, outside = unix.ETH_P_IPV6, addr("2001:db8::9")
		}
		for last := range byte(8) {
			to := ending(transitOf(outside.Is6()), last)
			for _, packet := range packets(outside, to, to) {
				frames = append(frames, frame(dataplane.NodeMAC, dataplane.NodeMAC, etherType, packet...))
			}
			mapped := netip.AddrFrom16(to.As16()) // an IPv4 address in an IPv6 packet
			frames = append(frames, frame(dataplane.NodeMAC, dataplane.NodeMAC, unix.ETH_P_IPV6, ipv6(addr("2001:db8::9"), mapped, 17, make([]byte, 8)...)...))
		}
		for range 20_000 {
			frame := mutate(dice, frames[dice.IntN(len(frames))])
			if least := map[uint16]int{unix.ETH_P_IP: 34, unix.ETH_P_IPV6: 54}[binary.BigEndian.Uint16(frame[12:])]; len(frame) < least {
				continue // BPF_PROG_TEST_RUN refuses it
			}
			want, after := w.enter(frame)
			got, out := r.run("from_gateway", frame, 0)
			seen[want]++
			if got != want || want == "deliver" && !sameNAT(frame, out, after) {
				t.Fatalf("%s, want %s\n%x\nafter it:\n%x, want\n%x", got, want, frame, out, after)
			}
		}
		p.Close()
	}
	for _, verdict := range []string{"deliver", "egress", "unknown", "truncated", "extension", "protocol"} {
		if seen[verdict] < 20 {
			t.Errorf("only %d frames were for %q", seen[verdict], verdict)
		}
	}
	t.Logf("verdicts: %v", seen)
}
