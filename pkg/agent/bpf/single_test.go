//go:build linux && kernel

package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/test/chance"
)

// loopback is an interface that every namespace has. A packet of a test comes from it.
const loopback = 1

func mac(s string) dataplane.MAC {
	m, err := dataplane.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

// newWorld has the pod behind loopback, another one on this node, a stale place, one on another
// node, and one on a node that is not known.
func newWorld(v6 bool) world {
	cidr := netip.MustParsePrefix("192.168.0.0/24")
	if v6 {
		cidr = netip.MustParsePrefix("fd12::/64")
	}
	ip := func(last byte) tables.Address { return tables.AddressOf(ending(cidr.Addr(), last)) }
	at := func(last byte) dataplane.MAC {
		b := cidr.Addr().As16()
		return dataplane.MAC{0x0a, 0x58, b[12], b[13], b[14], last}
	}
	transit := func(last byte) netip.Addr { return ending(transitOf(v6), last) }
	w := world{vni: 70001, node: addr("203.0.113.1"), other: addr("203.0.113.2"), network: dataplane.Network{MTU: 1450, Gateway: ip(1).Addr(), CIDR: cidr, Egress: true},
		port: tables.Port{VNI: 70001, MAC: at(2), IP: ip(2), Transit: tables.AddressOf(transit(2))}, gateway: 8}
	w.ports = map[uint32]tables.Port{
		22: {VNI: 70001, MAC: at(3), IP: ip(3), Transit: tables.AddressOf(transit(3))},
		23: {VNI: 70002, MAC: at(4), IP: ip(4), Transit: tables.AddressOf(transit(4))}, // of another Network, which is not here
	}
	w.ports[loopback] = w.port
	w.transits = map[netip.Addr]uint32{transit(2): loopback, transit(3): 22, transit(4): 23, transit(5): 22, transit(6): 99} // the last two are stale
	node := tables.AddressOf(w.other)
	w.places = map[tables.PlaceKey]tables.Place{
		{VNI: 70001, MAC: at(2)}: {IP: ip(2), Interface: loopback},
		{VNI: 70001, MAC: at(3)}: {IP: ip(3), Interface: 22},
		{VNI: 70001, MAC: at(4)}: {IP: ip(4), Interface: 23},
		{VNI: 70001, MAC: at(5)}: {IP: ip(5), Node: node},
		{VNI: 70001, MAC: at(6)}: {IP: ip(6), Node: tables.AddressOf(addr("10.9.0.66"))},
		{VNI: 70002, MAC: at(7)}: {IP: ip(7), Node: node},
	}
	return w
}

func (w world) write(t testing.TB, p *Programs) {
	t.Helper()
	must(t, p.SetConfig(tables.Config{Local: w.node, VXLAN: 9, UDPPort: 4789, Gateway: w.gateway}))
	must(t, setNode(p, w.other, tables.Wire{Interface: loopback}))
	w.network.VNI = w.vni
	must(t, setNetwork(p, w.network))
	for index, port := range w.ports {
		must(t, setPort(p, index, port))
	}
	for key, place := range w.places {
		must(t, setPlace(p, key, place))
	}
	for address, index := range w.transits {
		must(t, setTransit(p, address, index))
	}
}

// context is a struct __sk_buff with the interface and the size of segments.
func context(gsoSize int) []byte {
	b := make([]byte, 192)
	binary.LittleEndian.PutUint32(b[40:], loopback)
	binary.LittleEndian.PutUint32(b[176:], uint32(gsoSize))
	return b
}

// runner counts the drops of a program by their difference.
type runner struct {
	testing.TB
	p    *Programs
	last map[Drop]uint64
	// vni that the last run counted a drop for; 0 if it dropped nothing.
	vni int32
}

// reason of the drop since the last call; "" if nothing was dropped.
func (r *runner) reason() string {
	r.Helper()
	now, err := r.p.Drops()
	must(r, err)
	var reasons []string
	r.vni = 0
	for d, count := range now {
		if count > r.last[d] {
			reasons, r.vni = append(reasons, d.Reason), d.VNI
		}
	}
	r.last = now
	return strings.Join(reasons, " and ")
}

// run a program on a frame. It returns the verdict in the words of decide, and the frame after it.
func (r *runner) run(program string, frame []byte, gsoSize int) (string, []byte) {
	r.Helper()
	return r.runIn(program, frame, context(gsoSize))
}

// runBetween runs a program on a frame that came from an interface, 0 for the node itself, and leaves by another.
func (r *runner) runBetween(program string, frame []byte, from, by uint32) (string, []byte) {
	r.Helper()
	c := context(0)
	binary.LittleEndian.PutUint32(c[36:], from)
	binary.LittleEndian.PutUint32(c[40:], by)
	return r.runIn(program, frame, c)
}

func (r *runner) runIn(program string, frame, context []byte) (string, []byte) {
	r.Helper()
	out := make([]byte, len(frame)+200)
	options := &ebpf.RunOptions{Data: frame, DataOut: out, Context: context}
	code, err := r.p.collection.Programs[program].Run(options)
	if err != nil {
		r.Fatalf("run on %x with %x: %v", frame, context, err)
	}
	out = options.DataOut
	switch reason := r.reason(); {
	case code == 2:
		return reason, nil
	case code == ^uint32(0) && bytes.Equal(out, frame): // TC_ACT_UNSPEC
		return "leave", nil
	case code != 7 || reason != "": // TC_ACT_REDIRECT
		return "neither dropped nor redirected", nil
	case len(out) == len(frame)+OuterSize && binary.BigEndian.Uint16(out[36:]) == 4789 && out[23] == unix.IPPROTO_UDP:
		return "send", out
	case program == "from_port" && dataplane.MAC(out) == dataplane.NodeMAC:
		return "nat", out
	case bytes.Equal(out, frame), program == "from_wire", program == "from_gateway":
		return "deliver", out
	default:
		return "answer", out
	}
}

// OuterSize is the number of bytes that VXLAN adds.
const OuterSize = 50

// isOuter says whether the headers before a frame are those of VXLAN from this node to the other one.
func (w world) isOuter(frame []byte) bool {
	want := vxlan(w.node, w.other, w.vni, frame[OuterSize:])[:36]
	got := bytes.Clone(frame[14:50])
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(got[i:]))
	}
	copy(got[6:], want[6:8])    // never in fragments, which vxlan does not say
	copy(got[10:], want[10:12]) // so their checksums differ
	copy(got[20:], want[20:22]) // the source port is the flow's
	return bytes.Equal(got, want) && uint16(sum+sum>>16) == 0xffff
}

// frames that pods send, and that attackers begin with.
func (w world) frames() (all [][]byte) {
	everybody := mac("ff:ff:ff:ff:ff:ff")
	tcp := make([]byte, 60)
	tcp[12] = 8 << 4 // 32 bytes, as with timestamps
	from := w.port.IP.Addr()
	for key, place := range w.places {
		ip := place.IP.Addr()
		for _, to := range []dataplane.MAC{key.MAC, dataplane.GatewayMAC(w.vni), everybody, {9}} {
			if !ip.Is4() {
				solicitation := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, ip.AsSlice()...)
				gateway := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, linkLocal(dataplane.GatewayMAC(w.vni)).AsSlice()...)
				all = append(all, frame(to, w.port.MAC, unix.ETH_P_IPV6, ipv6(from, ip, 17, make([]byte, 32)...)...),
					frame(to, w.port.MAC, unix.ETH_P_IPV6, ipv6(from, ip, 6, tcp...)...),
					frame(to, w.port.MAC, unix.ETH_P_IPV6, ipv6(from, ip, 44, append([]byte{6, 0, 0, 1, 0, 0, 0, 9}, tcp...)...)...),
					frame(to, w.port.MAC, unix.ETH_P_IPV6, ipv6(from, w.network.Gateway, 58, append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, w.network.Gateway.AsSlice()...)...)...),
					frame(to, w.port.MAC, unix.ETH_P_IPV6, ipv6(from, ip, 58, append(solicitation, 1, 1, 2, 3, 4, 5, 6, 7)...)...),
					frame(to, w.port.MAC, unix.ETH_P_IPV6, ipv6(addr("::"), ip, 58, solicitation...)...),
					frame(to, w.port.MAC, unix.ETH_P_IPV6, ipv6(linkLocal(w.port.MAC), ip, 58, gateway...)...),
					frame(to, w.port.MAC, unix.ETH_P_IPV6, ipv6(from, ip, 44, append([]byte{58, 0, 0, 1, 0, 0, 0, 9}, solicitation...)...)...),
					frame(to, w.port.MAC, unix.ETH_P_IPV6, ipv6(from, ip, 60, append([]byte{58, 0, 1, 4, 0, 0, 0, 0}, solicitation...)...)...))
				continue
			}
			packet := append(udp4(from, ip)[:20], tcp...)
			packet[9] = unix.IPPROTO_TCP
			all = append(all, frame(to, w.port.MAC, unix.ETH_P_IP, udp4(from, ip)...), frame(to, w.port.MAC, unix.ETH_P_IP, packet...),
				frame(to, w.port.MAC, unix.ETH_P_IP, append(udp4(from, ip), make([]byte, 1440)...)...),
				frame(to, w.port.MAC, unix.ETH_P_ARP, arp(1, w.port.MAC, from, ip)...),
				frame(to, w.port.MAC, unix.ETH_P_ARP, arp(1, w.port.MAC, addr("0.0.0.0"), w.network.Gateway)...))
		}
	}
	return all
}

// mutate changes some bytes, or the length.
func mutate(dice *rand.Rand, frame []byte) []byte {
	frame = bytes.Clone(frame)
	for range dice.IntN(4) {
		at := dice.IntN(min(len(frame), 80))
		switch dice.IntN(4) {
		case 0:
			frame[at] = byte(dice.Uint32())
		case 1:
			frame[at] ^= 1 << dice.IntN(8)
		case 2: // numbers that mean something
			frame[at] = []byte{0, 43, 44, 51, 58, 60, 133, 134, 135, 136, 137, 255}[dice.IntN(12)]
		case 3:
			frame = frame[:max(15, dice.IntN(len(frame)+1))] // the kernel runs no program on a shorter one
		}
	}
	return frame
}

// The programs decide about any frame as the model does, and answer with the same bytes.
func TestProgramsDecideAsTheModel(t *testing.T) {
	dice := rand.New(rand.NewPCG(chance.Seed(t), 0))
	seen := map[string]int{}
	worlds := []world{newWorld(false), newWorld(true), newWorld(false), newWorld(true)}
	worlds[2].network.Egress = false
	worlds[3].network.Gateway = addr("fd12::1:0:0") // its last four bytes are zero
	for _, w := range worlds {
		p, err := Load(bpffs(t))
		must(t, err)
		w.write(t, p)
		r, frames := &runner{TB: t, p: p}, append(w.frames(), w.leaving()...)
		for range 10_000 {
			frame, gsoSize := mutate(dice, frames[dice.IntN(len(frames))]), 0
			if dice.IntN(4) == 0 && len(frame) > 100 {
				if gsoSize = 1380 + dice.IntN(80); dice.IntN(20) == 0 {
					gsoSize = 0xffff
				}
			}
			if least := map[uint16]int{unix.ETH_P_IP: 34, unix.ETH_P_IPV6: 54}[binary.BigEndian.Uint16(frame[12:])]; len(frame) < least {
				continue // BPF_PROG_TEST_RUN refuses it; TestSpoofing sends such a frame
			}
			want, answer := w.decide(frame, gsoSize)
			if want == "send" && gsoSize > 0 {
				want = "deliver" // unchanged, to the VXLAN device: the kernel does not know the protocol of these segments
			}
			got, out := r.run("from_port", frame, gsoSize)
			seen[want]++
			same := got == want
			switch echo := dataplane.MAC(frame) == dataplane.GatewayMAC(w.vni); {
			case !same:
			case want == "answer":
				same = bytes.Equal(out, answer) || echo && sameNAT(frame, out, answer)
			case want == "nat":
				same = sameNAT(frame, out, answer)
			case want == "send":
				same = bytes.Equal(out[OuterSize:], frame) && w.isOuter(out)
			}
			if !same {
				t.Fatalf("%s, want %s, for segments of %d from %+v:\n%x\nafter it:\n%x, want\n%x", got, want, gsoSize, w.port, frame, out, answer)
			}
		}
		p.Close()
	}
	for _, verdict := range []string{"answer", "deliver", "send", "nat", "egress", "mac", "ip", "arp", "nd", "protocol", "extension", "truncated", "multicast", "unknown", "oversized"} {
		if seen[verdict] < 20 {
			t.Errorf("only %d frames were for %q", seen[verdict], verdict)
		}
	}
	t.Logf("verdicts: %v", seen)
}

// from_wire takes, drops or leaves any packet as the model does.
func TestWireDecidesAsTheModel(t *testing.T) {
	dice := rand.New(rand.NewPCG(chance.Seed(t), 0))
	seen := map[string]int{}
	for _, w := range []world{newWorld(false), newWorld(true)} {
		p, err := Load(bpffs(t))
		must(t, err)
		w.decap6 = hasDecap6(t)
		w.write(t, p)
		r := &runner{TB: t, p: p}
		var frames [][]byte
		for _, inner := range w.frames() {
			for _, from := range []netip.Addr{w.other, w.other, addr("10.9.0.66")} {
				frames = append(frames, frame(dataplane.MAC{2}, dataplane.MAC{4}, unix.ETH_P_IP, vxlan(from, w.node, w.vni, inner)...))
			}
		}
		for range 20_000 {
			frame, gsoSize := mutate(dice, frames[dice.IntN(len(frames))]), dice.IntN(2)*1200
			if least := map[uint16]int{unix.ETH_P_IP: 34, unix.ETH_P_IPV6: 54}[binary.BigEndian.Uint16(frame[12:])]; len(frame) < least {
				continue // BPF_PROG_TEST_RUN refuses it
			}
			want, inner := w.decideWire(frame, gsoSize)
			got, out := r.run("from_wire", frame, gsoSize)
			seen[want]++
			if got != want || want == "deliver" && !bytes.Equal(out, inner) {
				t.Fatalf("%s, want %s, for segments of %d\n%x\nafter it:\n%x, want\n%x", got, want, gsoSize, frame, out, inner)
			}
		}
		p.Close()
	}
	for _, verdict := range []string{"leave", "deliver", "vxlan", "protocol", "unknown"} {
		if seen[verdict] < 20 {
			t.Errorf("only %d frames were for %q", seen[verdict], verdict)
		}
	}
	t.Logf("verdicts: %v", seen)
}

// hasDecap6 says whether the kernel can remove an IPv4 header before an IPv6 one, which needs Linux 6.4.
func hasDecap6(t testing.TB) bool { return isLinux(t, 6, 4) }

// isLinux says whether the kernel has this version or a newer one.
func isLinux(t testing.TB, wantMajor, wantMinor int) bool {
	t.Helper()
	var name unix.Utsname
	must(t, unix.Uname(&name))
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major > wantMajor || major == wantMajor && minor >= wantMinor
}
