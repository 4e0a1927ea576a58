package ipam

import (
	"fmt"
	"net/netip"
	"strings"
)

const blockBits = 8

// BlockSize is the number of addresses in a block of the ledger. It is a
// constant of the API version: with another size, two blocks of different names
// could cover one address.
const BlockSize = 1 << blockBits

// Block returns the aligned block that contains a: a /24 for IPv4, a /120 for
// IPv6. It does not depend on the CIDR of the Network, so that a CIDR that grows
// keeps its blocks; in a /28 and at the ends of a larger CIDR, a block holds
// addresses that the Network does not have. The zero Addr gives the zero Prefix.
func Block(a netip.Addr) netip.Prefix {
	// The error is for the zero Addr alone.
	p, _ := a.Prefix(a.BitLen() - blockBits)
	return p
}

// BlockName returns the name of the AddressBlock of one Network:
//
//	blue, 192.168.0.0/24       blue-192.168.0.0
//	blue, 2001:db8::100/120    blue-2001-0db8-0000-0000-0000-0000-0000-0100
//
// The block is one that Block returned. Every address is written at full length
// and last, so no two pairs of network and block share a name, whatever dots and
// dashes the network's name has. The result is a DNS subdomain (RFC 1123) if
// network is one of at most 213 characters: 253 less "-" and 39 for IPv6.
func BlockName(network string, block netip.Prefix) string {
	return network + "-" + strings.ReplaceAll(block.Addr().StringExpanded(), ":", "-")
}

// MAC returns the hardware address that goes with a: "0a:58:", locally
// administered and unicast, and the last four bytes of a. It needs no state: of
// one Network, two addresses share a MAC only where they are a multiple of 2^32
// apart, which takes an IPv6 CIDR larger than /96 and addresses that were asked for.
func MAC(a netip.Addr) string {
	b := a.As16()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", b[12], b[13], b[14], b[15])
}
