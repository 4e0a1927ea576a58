//go:build linux && kernel

package bpf

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

func transitOf(v6 bool) netip.Addr {
	if v6 {
		return dataplane.Transit6.Addr()
	}
	return addr("100.64.0.0")
}

func ending(a netip.Addr, last byte) netip.Addr {
	b := a.AsSlice()
	b[len(b)-1] = last
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// ipPacket is an IP packet in a frame, as NAT looks at it.
type ipPacket struct {
	v6       bool
	protocol byte
	start    int  // offset of the transport header in the frame
	later    bool // a fragment other than the first
}

// parse returns the reason of a drop, or "".
func parse(frame []byte) (p ipPacket, reason string) {
	content := frame[14:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_IP:
		if len(content) < 20 || content[0]&15 < 5 {
			return p, "truncated"
		}
		if content[0]>>4 != 4 {
			return p, "protocol"
		}
		return ipPacket{protocol: content[9], start: 14 + int(content[0]&15)*4, later: binary.BigEndian.Uint16(content[6:])&0x1fff != 0}, ""
	case unix.ETH_P_IPV6:
	default:
		return p, "protocol"
	}
	if len(content) < 40 {
		return p, "truncated"
	}
	if content[0]>>4 != 6 {
		return p, "protocol"
	}
	p = ipPacket{v6: true, protocol: content[6], start: 54}
	if p.protocol == 44 {
		if len(content) < 48 {
			return p, "truncated"
		}
		p.protocol, p.start, p.later = content[40], 62, binary.BigEndian.Uint16(content[42:])&0xfff8 != 0
	}
	if bytes.IndexByte([]byte{0, 43, 44, 51, 60, 135}, p.protocol) >= 0 {
		return p, "extension"
	}
	return p, ""
}

// offsets in a frame of an IP header's source and destination.
func (p ipPacket) offsets(header int) (source, destination, size int) {
	if p.v6 {
		return header + 8, header + 24, 16
	}
	return header + 12, header + 16, 4
}

// check is the offset of a checksum that covers the addresses; 0 if the protocol has none.
func (p ipPacket) check() int {
	at := map[byte]int{6: 16, 17: 6, 136: 6, 33: 6}[p.protocol]
	if p.v6 && p.protocol == 58 {
		at = 2
	}
	if at == 0 || p.later {
		return 0
	}
	return p.start + at
}

// quoted is the offset of the packet that an ICMP error quotes; 0 if it is none.
func (p ipPacket) quoted(frame []byte) int {
	if p.later || p.start >= len(frame) {
		return 0
	}
	kind := frame[p.start]
	if p.v6 && p.protocol == 58 && kind < 128 || !p.v6 && p.protocol == 1 && slices.Contains([]byte{3, 4, 5, 11, 12}, kind) {
		return p.start + 8
	}
	return 0
}

// translate the source or the destination of a frame. The checksums of the result are not right: sameNAT ignores them.
func (p ipPacket) translate(frame []byte, source bool, from, to netip.Addr) (reason string, out []byte) {
	out = bytes.Clone(frame)
	if check := p.check(); check > 0 && check+2 > len(frame) {
		return "truncated", nil
	}
	at, _, size := p.offsets(14)
	quoted := p.quoted(frame)
	_, atQuoted, _ := p.offsets(quoted) // the quoted packet went the other way
	if !source {
		_, at, _ = p.offsets(14)
		atQuoted, _, _ = p.offsets(quoted)
	}
	copy(out[at:at+size], to.AsSlice())
	if quoted > 0 {
		if atQuoted+size > len(frame) {
			return "truncated", nil
		}
		if bytes.Equal(frame[atQuoted:atQuoted+size], from.AsSlice()) {
			copy(out[atQuoted:], to.AsSlice())
		}
	}
	return "", out
}

// leave is the verdict on a frame for the gateway.
func (w world) leave(whole []byte) (string, []byte) {
	p, reason := parse(whole)
	if reason != "" {
		return reason, nil
	}
	source, destination, size := p.offsets(14)
	address := func(at int) netip.Addr {
		a, _ := netip.AddrFromSlice(whole[at : at+size])
		return a
	}
	from, to := address(source), address(destination)
	if to == w.network.Gateway || p.v6 && to == linkLocal(dataplane.GatewayMAC(w.vni)) {
		protocol, request, reply := byte(1), byte(8), byte(0)
		if p.v6 {
			protocol, request, reply = 58, 128, 129
		}
		out := bytes.Clone(whole)
		if kind := slices.Clone(whole[min(p.start, len(whole)):]); p.protocol != protocol || !p.later && (len(kind) == 0 || kind[0] != request) {
			return "unknown", nil
		} else if !p.later {
			if len(kind) < 4 {
				return "truncated", nil
			}
			out[p.start] = reply
		}
		copy(out[destination:], whole[source:destination])
		copy(out[source:], whole[destination:destination+size])
		copy(out, whole[6:12])
		copy(out[6:], whole[:6])
		return "answer", out
	}
	switch {
	case from != w.port.IP.Addr(), to.Is6() && linkLocalPrefix.Contains(to), netip.PrefixFrom(w.network.Gateway, w.network.CIDR.Bits()).Contains(to):
		return "unknown", nil
	case !w.network.Egress:
		return "egress", nil
	}
	reason, out := p.translate(whole, true, from, w.port.Transit.Addr())
	if reason != "" {
		return reason, nil
	}
	copy(out, dataplane.NodeMAC[:])
	return "nat", out
}

var linkLocalPrefix = netip.MustParsePrefix("fe80::/64")

// enter is the verdict of from_gateway on a frame.
func (w world) enter(whole []byte) (string, []byte) {
	p, reason := parse(whole)
	if reason != "" {
		return reason, nil
	}
	_, destination, size := p.offsets(14)
	to, _ := netip.AddrFromSlice(whole[destination : destination+size])
	port := w.ports[w.transits[to]]
	if !to.IsValid() || port.Transit.Addr() != to || port.VNI != w.vni {
		return "unknown", nil
	}
	if !w.network.Egress {
		return "egress", nil
	}
	reason, out := p.translate(whole, false, to, port.IP.Addr())
	if reason != "" {
		return reason, nil
	}
	gateway := dataplane.GatewayMAC(w.vni)
	copy(out, port.MAC[:])
	copy(out[6:], gateway[:])
	return "deliver", out
}

// sameNAT says whether the frame is the wanted one, and whether each checksum is as right or wrong as before: its
// sum with everything that it covers is the same.
func sameNAT(before, got, want []byte) bool {
	if len(got) != len(want) {
		return false
	}
	p, reason := parse(want)
	if reason != "" {
		return bytes.Equal(got, want)
	}
	source, destination, size := p.offsets(14)
	type region struct{ check, from, to int }
	var regions []region
	if !p.v6 {
		regions = append(regions, region{24, 14, min(p.start, len(got))})
	}
	if check := p.check(); check > 0 && (p.protocol != 17 || before[check] != 0 || before[check+1] != 0) {
		regions = append(regions, region{check, p.start, len(got)})
	}
	if !p.v6 && p.protocol == 1 && !p.later && p.start+4 <= len(got) {
		regions = append(regions, region{p.start + 2, p.start, len(got)})
	}
	if quoted := p.quoted(want); quoted > 0 && !p.v6 {
		regions = append(regions, region{quoted + 10, quoted, quoted + 20})
	}
	got, blank := bytes.Clone(got), bytes.Clone(want)
	for _, r := range regions {
		covered := func(frame []byte) uint32 {
			sum := onesum(frame[r.from:min(r.to, len(frame))])
			if r.check == p.check() {
				sum += onesum(frame[source:source+size]) + onesum(frame[destination:destination+size])
			}
			return sum % 0xffff
		}
		if covered(got) != covered(before) {
			return false
		}
	}
	for _, r := range regions {
		copy(blank[r.check:], got[r.check:r.check+2])
	}
	return bytes.Equal(got, blank)
}

// onesum of 16-bit words.
func onesum(b []byte) (sum uint32) {
	for i, x := range b {
		if i%2 == 0 {
			sum += uint32(x) << 8
		} else {
			sum += uint32(x)
		}
	}
	return sum
}
