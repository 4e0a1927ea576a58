//go:build linux && kernel

package bpf

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/test/chance"
)

var node6 = netip.MustParseAddr("fd00::2")

// decideToWire returns the verdict of to_wire on a frame that came from an interface, 0 for the node itself, and
// leaves by lo or by another interface. It also returns the VNI that a drop counts for: 0 if no Network has the number,
// because a program of the node could fill the table of drops. It is written from docs/contributing/data-plane.md.
func (w world) decideToWire(frame []byte, from uint32, lo bool) (verdict string, counted int32) {
	if _, port := w.ports[from]; port && from != 0 {
		return "leave", 0
	}
	vni, to, found := sentVXLAN(frame)
	const hidden = -1
	switch {
	case !found, vni != hidden && vni != w.vni && vni < 65536:
		return "leave", 0
	case vni == w.vni:
		return "injected", vni
	case lo, !to.IsValid(), to == w.other, to == node6:
		return "injected", 0
	}
	return "leave", 0 // to a host that is not a node
}

// sentVXLAN returns the number and the destination of VXLAN in a frame: -1 if the number is hidden, and no destination
// if that is hidden, too.
func sentVXLAN(frame []byte) (vni int32, to netip.Addr, found bool) {
	etherType, content := binary.BigEndian.Uint16(frame[12:]), frame[14:]
	for tags := 0; etherType == 0x8100 || etherType == 0x88a8; tags++ {
		if tags == 4 {
			return -1, to, true
		}
		if len(content) < 4 {
			return 0, to, false
		}
		etherType, content = binary.BigEndian.Uint16(content[2:]), content[4:]
	}
	switch {
	case etherType == 0x0800 && len(content) >= 20:
		header := int(content[0]&15) * 4
		if content[9] != 17 || binary.BigEndian.Uint16(content[6:])&0x1fff != 0 || header < 20 {
			return 0, to, false
		}
		to, content = netip.AddrFrom4([4]byte(content[16:])), content[min(header, len(content)):]
	case etherType == 0x86dd && len(content) >= 40:
		next := content[6]
		to, content = netip.AddrFrom16([16]byte(content[24:])), content[40:]
		for headers := 0; next != 17; headers++ {
			if !slices.Contains([]byte{0, 43, 44, 51, 60, 135}, next) {
				return 0, to, false
			}
			if headers == 6 || len(content) < 4 {
				return -1, to, true
			}
			size := map[byte]int{44: 8, 51: (int(content[1]) + 2) * 4}[next]
			if next == 44 && binary.BigEndian.Uint16(content[2:])&0xfff8 != 0 {
				return 0, to, false // a later fragment
			}
			if size == 0 {
				size = (int(content[1]) + 1) * 8
			}
			next, content = content[0], content[min(size, len(content)):]
		}
	default:
		return 0, to, false
	}
	switch {
	case len(content) >= 4 && binary.BigEndian.Uint16(content[2:]) != 4789:
		return 0, to, false
	case len(content) < 16:
		return -1, to, true
	}
	return int32(binary.BigEndian.Uint32(content[12:]) >> 8), to, true
}

// sent are frames with VXLAN, from any interface of the node.
func (w world) sent() (all [][]byte) {
	inner := frame(dataplane.MAC{2}, dataplane.MAC{4}, unix.ETH_P_IP, udp4(addr("192.168.0.2"), addr("192.168.0.3"))...)
	for _, vni := range []int32{w.vni, w.vni + 1, 1, 65535, 65536, 1<<24 - 1} {
		for _, to := range []netip.Addr{w.other, addr("10.9.0.66")} {
			packet := vxlan(w.node, to, vni, inner)
			packets := [][]byte{packet, packet, packet, packet}
			for _, six := range []netip.Addr{node6, addr("fd00::66")} {
				next, content := byte(17), packet[20:]
				for _, header := range [][]byte{{60, 8}, {44, 8}, {43, 16}, {51, 12}, {135, 16}, {0, 8}, {60, 8}, {60, 8}} { // with their sizes
					packets = append(packets, ipv6(addr("fd00::1"), six, next, content...))
					packets = append(packets, ipv6(addr("fd00::1"), six, next, content[:len(content)-len(packet)+22]...)) // ends in the UDP header
					extension := make([]byte, header[1])
					extension[0], extension[1], extension[3] = next, header[0]&1, 1 // the first fragment
					next, content = header[0], append(extension, content...)
				}
			}
			for _, tags := range []int{0, 0, 0, 1, 4, 5} {
				for _, p := range packets {
					etherType := []byte{0x08, 0x00}
					if p[0]>>4 == 6 {
						etherType = []byte{0x86, 0xdd}
					}
					f := append(make([]byte, 12), slices.Repeat([]byte{0x81, 0x00, 0, 0}, tags)...)
					all = append(all, append(append(f, etherType...), p...))
				}
			}
		}
	}
	return all
}

// to_wire drops or leaves any packet as the model does.
func TestToWireDecidesAsTheModel(t *testing.T) {
	w, dice, seen := newWorld(false), rand.New(rand.NewPCG(chance.Seed(t), 0)), map[string]int{}
	p, err := Load(bpffs(t))
	must(t, err)
	defer p.Close()
	w.write(t, p)
	must(t, setNode(p, node6, tables.Wire{}))
	var other uint32
	ns := newNamespace(t)
	must(t, in(ns, func() (err error) {
		if err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "wire"}, PeerName: "peer"}); err == nil {
			other, err = indexOf("wire")
		}
		return err
	}))
	r, frames := &runner{TB: t, p: p}, w.sent()
	must(t, in(ns, func() error {
		for range 5_000 {
			frame := mutate(dice, frames[dice.IntN(len(frames))])
			if least := map[uint16]int{unix.ETH_P_IP: 34, unix.ETH_P_IPV6: 54}[binary.BigEndian.Uint16(frame[12:])]; len(frame) < least {
				continue // BPF_PROG_TEST_RUN refuses it
			}
			from, by := []uint32{0, 0, 22, 77}[dice.IntN(4)], []uint32{loopback, other, other}[dice.IntN(3)]
			want, counted := w.decideToWire(frame, from, by == loopback)
			got, _ := r.runBetween("to_wire", frame, from, by)
			if seen[want]++; got != want || r.vni != counted {
				return fmt.Errorf("%s for VNI %d, want %s for %d, from interface %d by %d:\n%x", got, r.vni, want, counted, from, by, frame)
			}
		}
		return nil
	}))
	for _, verdict := range []string{"leave", "injected"} {
		if seen[verdict] < 500 {
			t.Errorf("only %d frames were for %q", seen[verdict], verdict)
		}
	}
	t.Logf("verdicts: %v", seen)
}
