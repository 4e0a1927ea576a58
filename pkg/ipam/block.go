package ipam

import (
	"fmt"
	"net/netip"
	"strings"
)

const blockBits = 8

// BlockSize is the number of addresses in an AddressBlock. It is a constant of the API
// version: with another size, two blocks with different names could cover one address.
const BlockSize = 1 << blockBits

// Block returns the aligned block that contains a: a /24 for IPv4, a /120 for IPv6. It
// does not depend on the CIDR of the Network, so a growing CIDR keeps its blocks. In a
// /28, and at the ends of a larger CIDR, a block covers addresses that the Network does
// not have. The zero Addr gives the zero Prefix.
func Block(a netip.Addr) netip.Prefix {
	// Only the zero Addr is an error.
	p, _ := a.Prefix(a.BitLen() - blockBits)
	return p
}

// BlockName returns the name of the AddressBlock of one Network:
//
//	blue, 192.168.0.0/24       blue-192.168.0.0
//	blue, 2001:db8::100/120    blue-2001-0db8-0000-0000-0000-0000-0000-0100
//
// block must be a result of Block. The address is at full length and comes last. So
// different pairs of network and block have different names, even if the network's name
// has dots and dashes. The result is a DNS subdomain (RFC 1123) if network is a subdomain
// of at most 213 characters: 253 less "-" and 39 for IPv6.
func BlockName(network string, block netip.Prefix) string {
	return network + "-" + strings.ReplaceAll(block.Addr().StringExpanded(), ":", "-")
}

// MAC returns the hardware address that belongs to a: "0a:58:", locally administered and
// unicast, and the last four bytes of a. It needs no state. Two addresses of one Network
// share a MAC only if they differ by a multiple of 2^32. That takes an IPv6 CIDR larger
// than /96 and pods that ask for such addresses.
func MAC(a netip.Addr) string {
	b := a.As16()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", b[12], b[13], b[14], b[15])
}
