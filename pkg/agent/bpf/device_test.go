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

	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/test/chance"
)

// Offsets in struct __sk_buff, and in struct bpf_tunnel_key.
const (
	markOffset   = 8
	cbOffset     = 48
	senderOffset = 4
)

// inTunnel is the context of a frame that came in a tunnel. A test cannot give a frame one, so the mark has the version
// of IP in its first byte, and the VNI, and the control block has the sender. tunnelOf reads them.
func inTunnel(vni int32, sender netip.Addr) []byte {
	b := context(0)
	switch {
	case sender.Is4():
		binary.LittleEndian.PutUint32(b[markOffset:], 4<<24|uint32(vni))
		binary.LittleEndian.PutUint32(b[cbOffset:], binary.BigEndian.Uint32(sender.AsSlice())) // in the order of the machine
	case sender.Is6():
		binary.LittleEndian.PutUint32(b[markOffset:], 6<<24|uint32(vni))
		copy(b[cbOffset:], sender.AsSlice())
	}
	return b
}

// tunnelOf is bpf_skb_get_tunnel_key for frames of inTunnel: R1 is the frame, R2 the key, R4 the flags.
func tunnelOf() asm.Instructions {
	skb, key, flags, value := asm.R1, asm.R2, asm.R4, asm.R5
	code := asm.Instructions{
		asm.Mov.Imm(asm.R0, -int32(unix.EINVAL)).WithSymbol("tunnel_of"),
		asm.LoadMem(value, skb, markOffset, asm.Word),
		asm.RSh.Imm(value, 24),
		asm.JNE.Imm(flags, 0, "ipv6"),
		asm.JNE.Imm(value, 4, "end"),
		asm.LoadMem(value, skb, cbOffset, asm.Word),
		asm.StoreMem(key, senderOffset, value, asm.Word),
		asm.Ja.Label("vni"),
		asm.JNE.Imm(value, 6, "end").WithSymbol("ipv6"),
	}
	for word := int16(0); word < 16; word += 4 {
		code = append(code, asm.LoadMem(value, skb, cbOffset+word, asm.Word), asm.StoreMem(key, senderOffset+word, value, asm.Word))
	}
	return append(code,
		asm.LoadMem(value, skb, markOffset, asm.Word).WithSymbol("vni"),
		asm.And.Imm(value, 1<<24-1),
		asm.StoreMem(key, 0, value, asm.Word),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return().WithSymbol("end"))
}

// loadWithTunnels loads the programs, and lets from_vxlan read the tunnels of inTunnel.
func loadWithTunnels(t *testing.T) *Programs {
	t.Helper()
	s, err := spec()
	must(t, err)
	reads := 0
	program := s.Programs["from_vxlan"]
	for i := range program.Instructions {
		if one := &program.Instructions[i]; one.IsBuiltinCall() && one.Constant == int64(asm.FnSkbGetTunnelKey) {
			one.Src, one.Constant = asm.PseudoCall, -1
			*one = one.WithReference("tunnel_of")
			reads++
		}
	}
	if reads != 2 {
		t.Fatalf("from_vxlan reads the tunnel in %d instructions, not in two: for IPv4 and IPv6", reads)
	}
	program.Instructions = append(program.Instructions, tunnelOf()...)
	c, err := ebpf.NewCollection(s)
	must(t, err)
	t.Cleanup(c.Close)
	return &Programs{Maps: Maps{maps: c.Maps}, collection: c}
}

// from_vxlan decides about any frame from any tunnel as the model does.
func TestDeviceDecidesAsTheModel(t *testing.T) {
	dice, seen := rand.New(rand.NewPCG(chance.Seed(t), 0)), map[string]int{}
	for _, w := range []world{newWorld(false), newWorld(true)} {
		p := loadWithTunnels(t)
		w.write(t, p)
		must(t, setNode(p, node6, tables.Wire{}))
		r, frames := &runner{TB: t, p: p}, w.frames()
		senders := []netip.Addr{w.other, node6, w.other, node6, addr("10.9.0.66"), addr("fd00::66"), addr("::"), {}}
		for range 10_000 {
			frame := mutate(dice, frames[dice.IntN(len(frames))])
			if least := map[uint16]int{unix.ETH_P_IP: 34, unix.ETH_P_IPV6: 54}[binary.BigEndian.Uint16(frame[12:])]; len(frame) < least {
				continue // BPF_PROG_TEST_RUN refuses it
			}
			vni, sender := []int32{w.vni, w.vni, w.vni, 70002, 0}[dice.IntN(5)], senders[dice.IntN(len(senders))]
			if !sender.IsValid() {
				vni = 0 // no tunnel
			}
			want := w.decideDevice(frame, vni, sender)
			got, _ := r.runIn("from_vxlan", frame, inTunnel(vni, sender))
			if seen[want]++; got != want {
				t.Fatalf("%s, want %s, with VNI %d from %s:\n%x", got, want, vni, sender, frame)
			}
		}
	}
	for _, verdict := range []string{"deliver", "vxlan", "protocol", "unknown"} {
		if seen[verdict] < 20 {
			t.Errorf("only %d frames were for %q", seen[verdict], verdict)
		}
	}
	t.Logf("verdicts: %v", seen)
}
