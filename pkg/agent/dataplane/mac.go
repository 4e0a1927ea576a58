package dataplane

import (
	"fmt"
	"net/netip"
)

// MAC is a 48-bit hardware address. It is comparable; zero means none.
type MAC [6]byte

// ParseMAC reads six pairs of hexadecimal digits: 0a:58:c0:a8:00:02.
func ParseMAC(s string) (MAC, error) {
	var m MAC
	if len(s) != 17 {
		return MAC{}, fmt.Errorf("%.40q is not a MAC address such as 0a:58:c0:a8:00:02", s)
	}
	for i := range m {
		high, low := hexDigit(s[3*i]), hexDigit(s[3*i+1])
		if high < 0 || low < 0 || i < 5 && s[3*i+2] != ':' {
			return MAC{}, fmt.Errorf("%q is not a MAC address such as 0a:58:c0:a8:00:02", s)
		}
		m[i] = byte(high<<4 | low)
	}
	return m, nil
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (m MAC) String() string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 17)
	for i, octet := range m {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, digits[octet>>4], digits[octet&15])
	}
	return string(b)
}

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
