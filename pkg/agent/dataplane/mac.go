package dataplane

import (
	"fmt"
	"net/netip"
	"strings"
)

// MAC is a 48-bit hardware address. It is comparable; zero means none.
type MAC [6]byte

// ParseMAC reads six pairs of hexadecimal digits: 0a:58:c0:a8:00:02.
func ParseMAC(s string) (MAC, error) {
	var m MAC
	_, err := fmt.Sscanf(s, "%2x:%2x:%2x:%2x:%2x:%2x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5])
	if err != nil || !strings.EqualFold(m.String(), s) { // Sscanf also takes single digits, and text after the last one
		return MAC{}, fmt.Errorf("%.40q is not a MAC address such as 0a:58:c0:a8:00:02", s)
	}
	return m, nil
}

func (m MAC) String() string { return strings.ReplaceAll(fmt.Sprintf("% x", m[:]), " ", ":") }

// unicast says whether a host can have the address.
func (m MAC) unicast() bool { return m != MAC{} && m[0]&1 == 0 }

// NodeMAC is that of the interface by which packets leave Networks. No VNI has this GatewayMAC.
var NodeMAC = GatewayMAC(0)

// MACOf is the MAC address of a pod with that IP address, as ipam.MAC returns it.
func MACOf(ip netip.Addr) MAC {
	b := ip.As16()
	return MAC{0x0a, 0x58, b[12], b[13], b[14], b[15]}
}

// GatewayMAC is the same on every node, so a moved pod finds its gateway at the same MAC.
func GatewayMAC(vni int32) MAC {
	return MAC{0x02, 0x00, 0x5e, byte(vni >> 16), byte(vni >> 8), byte(vni)}
}
