//go:build linux && kernel

package bpf

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
)

// world has the entries of the maps in the tests of single packets.
type world struct {
	port    tables.Port
	vni     int32
	network dataplane.Network
	places  map[tables.PlaceKey]tables.Place
	ports   map[uint32]tables.Port // of the places
	node    netip.Addr             // the local one, and the only other one
	other   netip.Addr
	decap6  bool // the kernel can take IPv6 out of IPv4
	gateway uint32
	// transits are ports by transit address.
	transits map[netip.Addr]uint32
}

// decide returns the verdict of from_port on a frame, in plain Go: "answer", "deliver", "send", "nat", or
// the reason of a drop. It is written from docs/concepts/isolation.md, not from the programs. It
// also returns the frame of an answer, and the one after NAT.
func (w world) decide(frame []byte, gsoSize int) (verdict string, answer []byte) {
	to, from, etherType, content := dataplane.MAC(frame[:6]), dataplane.MAC(frame[6:12]), binary.BigEndian.Uint16(frame[12:]), frame[14:]
	if from != w.port.MAC {
		return "mac", nil
	}
	switch etherType {
	case 0x0800:
		if len(content) < 20 || content[0]&15 < 5 {
			return "truncated", nil
		}
		if content[0]>>4 != 4 {
			return "protocol", nil
		}
		if netip.AddrFrom4([4]byte(content[12:])) != w.port.IP.Addr() {
			return "ip", nil
		}
	case 0x86dd:
		if verdict, answer := w.decideIPv6(to, content, frame); verdict != "" {
			return verdict, answer
		}
	case 0x0806:
		return w.decideARP(content)
	default:
		return "protocol", nil
	}
	size := len(content)
	if gsoSize > 0 {
		if size = gsoSize + headers(frame); gsoSize == 0xffff {
			size = 0 // SCTP, in messages of any size
		}
	}
	place, known := w.places[tables.PlaceKey{VNI: w.vni, MAC: to}]
	switch {
	case to[0]&1 == 1:
		return "multicast", nil
	case size > w.network.MTU:
		return "oversized", nil
	case to == dataplane.GatewayMAC(w.vni):
		return w.leave(frame)
	case !known:
		return "unknown", nil
	case place.Interface == 0:
		if place.Node.Addr() == w.other {
			return "send", nil
		}
		return "unknown", nil
	}
	if port, ok := w.ports[place.Interface]; ok && port.MAC == to && port.VNI == w.vni {
		return "deliver", nil
	}
	return "unknown", nil
}

// owner of an address: its MAC address, and whether it is the gateway.
func (w world) owner(ip netip.Addr) (mac dataplane.MAC, router, ok bool) {
	if ip == w.network.Gateway {
		return dataplane.GatewayMAC(w.vni), true, true
	}
	for key, place := range w.places {
		if key.VNI == w.vni && (place.IP.Addr() == ip || linkLocal(key.MAC) == ip) {
			return key.MAC, false, true
		}
	}
	if ip == linkLocal(dataplane.GatewayMAC(w.vni)) {
		return dataplane.GatewayMAC(w.vni), true, true
	}
	return mac, false, false
}

func linkLocal(m dataplane.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

func (w world) decideARP(content []byte) (string, []byte) {
	if len(content) < 28 {
		return "truncated", nil
	}
	mac, sender, target := dataplane.MAC(content[8:14]), netip.AddrFrom4([4]byte(content[14:])), netip.AddrFrom4([4]byte(content[24:]))
	if mac != w.port.MAC || sender != w.port.IP.Addr() && (sender != netip.IPv4Unspecified() || !w.port.IP.Addr().Is4()) {
		return "arp", nil
	}
	if binary.BigEndian.Uint16(content[6:]) != 1 {
		return "multicast", nil
	}
	owner, _, ok := w.owner(target)
	switch {
	case !ok:
		return "unknown", nil
	case owner == w.port.MAC:
		return "multicast", nil
	}
	reply := bytes.Clone(content)
	reply[7] = 2
	copy(reply[8:], owner[:])
	copy(reply[14:], target.AsSlice())
	copy(reply[18:], mac[:])
	copy(reply[24:], sender.AsSlice())
	return "answer", frame(mac, owner, 0x0806, reply...)
}

// decideIPv6 returns "" if the packet may go on.
func (w world) decideIPv6(to dataplane.MAC, content, whole []byte) (string, []byte) {
	if len(content) < 40 {
		return "truncated", nil
	}
	if content[0]>>4 != 6 {
		return "protocol", nil
	}
	source := netip.AddrFrom16([16]byte(content[8:])) // a mapped address stays one here
	own := source == netip.AddrFrom16(w.port.IP) || source == linkLocal(w.port.MAC)
	unspecified, group := source == netip.IPv6Unspecified(), to[0]&1 == 1
	next, rest := content[6], content[40:]
	first, whole0 := true, true // the start of a message; a whole message
	if next == 44 {
		if len(rest) < 8 {
			return "truncated", nil
		}
		next, first, whole0, rest = rest[0], binary.BigEndian.Uint16(rest[2:])&0xfff8 == 0, false, rest[8:]
	}
	if bytes.IndexByte([]byte{0, 43, 44, 51, 60, 135}, next) >= 0 {
		if group {
			return "multicast", nil
		}
		return "extension", nil
	}
	if next == 58 && first {
		if len(rest) == 0 {
			return "truncated", nil
		}
		switch rest[0] {
		case 134, 136, 137:
			return "nd", nil
		case 135:
			if !whole0 || len(rest) < 24 || !own && !unspecified {
				return "nd", nil
			}
			return w.solicited(source, netip.AddrFrom16([16]byte(rest[8:])), whole)
		}
	}
	switch {
	case own:
		return "", nil
	case unspecified && group:
		return "multicast", nil
	}
	return "ip", nil
}

func (w world) solicited(source, target netip.Addr, whole []byte) (string, []byte) {
	owner, router, ok := w.owner(target)
	switch {
	case !ok:
		return "unknown", nil
	case owner == w.port.MAC:
		return "multicast", nil
	}
	flags := byte(0x20)
	if router {
		flags |= 0x80
	}
	if source == netip.IPv6Unspecified() {
		source = netip.MustParseAddr("ff02::1")
	} else {
		flags |= 0x40
	}
	message := append([]byte{136, 0, 0, 0, flags, 0, 0, 0}, target.AsSlice()...)
	message = append(append(message, 2, 1), owner[:]...)
	packet := ipv6(target, source, 58, message...)
	copy(packet[:4], whole[14:18]) // its class and label stay
	binary.BigEndian.PutUint16(packet[42:], checksum(target, source, message))
	return "answer", frame(w.port.MAC, owner, 0x86dd, packet...)
}

// checksum of ICMPv6 (RFC 4443, 2.3).
func checksum(from, to netip.Addr, message []byte) uint16 {
	covered := append(append(append([]byte{}, from.AsSlice()...), to.AsSlice()...), 0, 0, 0, byte(len(message)), 0, 0, 0, 58)
	covered = append(covered, message...)
	sum := uint32(0)
	for i := 0; i < len(covered); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(covered[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// headers is the size of the headers of a segment in a frame, from the IP header on.
func headers(frame []byte) int {
	p, _ := parse(frame)
	if p.protocol != 6 {
		return p.start - 14 + 8
	}
	if p.start+12 >= len(frame) {
		return p.start - 14
	}
	return p.start - 14 + int(frame[p.start+12]>>4)*4
}

// decideWire returns the verdict of from_wire on a frame: "leave" it to the node, "deliver" the
// inner one, or the reason of a drop.
func (w world) decideWire(whole []byte, gsoSize int) (verdict string, inner []byte) {
	if len(whole) < 64 || binary.BigEndian.Uint16(whole[12:]) != 0x0800 {
		return "leave", nil
	}
	ip, udp, vxlan, inner := whole[14:34], whole[34:42], whole[42:50], whole[50:]
	fragment := binary.BigEndian.Uint16(ip[6:])&0x3fff != 0 // not counting "don't fragment"
	if ip[0] != 0x45 || ip[1]&3 == 3 || ip[9] != 17 || fragment || netip.AddrFrom4([4]byte(ip[16:])) != w.node || binary.BigEndian.Uint16(udp[2:]) != 4789 ||
		!bytes.Equal(vxlan[:4], []byte{8, 0, 0, 0}) || binary.BigEndian.Uint32(vxlan[4:])>>8 != uint32(w.vni) {
		return "leave", nil
	}
	protocol := map[bool]int{false: 14 + 9, true: 14 + 6}[binary.BigEndian.Uint16(inner[12:]) == 0x86dd]
	if gsoSize > 0 && (protocol >= len(inner) || inner[protocol] != 6) {
		return "leave", nil
	}
	if netip.AddrFrom4([4]byte(ip[12:])) != w.other {
		return "vxlan", nil
	}
	least, isIP := map[uint16]int{0x0800: 20, 0x86dd: 40}[binary.BigEndian.Uint16(inner[12:])]
	if !isIP {
		return "protocol", nil
	}
	to := dataplane.MAC(inner[:6])
	place, known := w.places[tables.PlaceKey{VNI: w.vni, MAC: to}]
	if !known || place.Interface == 0 {
		return "unknown", nil
	}
	if len(inner) < 14+least || gsoSize > 0 || least == 40 && !w.decap6 {
		return "leave", nil // too short to be an IP packet: the kernel drops it. Of a test, it does not take segments
	}
	if port, ok := w.ports[place.Interface]; ok && port.MAC == to && port.VNI == w.vni {
		return "deliver", inner
	}
	return "unknown", nil
}

// decideDevice returns the verdict of from_vxlan on a frame that a node sent in a tunnel with this VNI: "deliver",
// or the reason of a drop.
func (w world) decideDevice(frame []byte, vni int32, sender netip.Addr) string {
	to, etherType := dataplane.MAC(frame[:6]), binary.BigEndian.Uint16(frame[12:])
	place := w.places[tables.PlaceKey{VNI: vni, MAC: to}]
	port := w.ports[place.Interface]
	switch {
	case vni != w.vni:
		return "unknown"
	case sender != w.other && sender != node6:
		return "vxlan"
	case etherType != 0x0800 && etherType != 0x86dd:
		return "protocol"
	case place.Interface == 0, port.MAC != to, port.VNI != vni:
		return "unknown"
	}
	return "deliver"
}
