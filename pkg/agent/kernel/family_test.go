//go:build linux && kernel

package kernel

import (
	"net/netip"
	"testing"
)

// family holds the differences between a test over IPv4 and the same over IPv6.
type family struct {
	name string
	// cidr is the CIDR of each Network, wire that of the nodes.
	cidr, wire netip.Prefix
	// transit holds all addresses between the node and routers. near is the node's end for
	// blue, far the router's.
	transit   netip.Prefix
	near, far netip.Addr
}

var (
	ipv4 = family{"IPv4", netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("100.64.0.0/16"),
		netip.MustParseAddr("100.64.0.0"), netip.MustParseAddr("100.64.0.1")}
	ipv6 = family{"IPv6", netip.MustParsePrefix("fd00:10::/64"), netip.MustParsePrefix("fd0a::/64"), netip.MustParsePrefix("fd64:706f:6432::/96"),
		netip.MustParseAddr("fd64:706f:6432::7d2"), netip.MustParseAddr("fd64:706f:6432::7d3")}
)

// eachFamily runs a test over both families.
func eachFamily(t *testing.T, test func(t *testing.T, f family)) {
	for _, f := range []family{ipv4, ipv6} {
		t.Run(f.name, func(t *testing.T) { test(t, f) })
	}
}

// pod and node are the addresses with this last byte on a Network and on the wire. node1
// has the first.
func (f family) pod(last byte) netip.Addr  { return ending(f.cidr, last) }
func (f family) node(last byte) netip.Addr { return ending(f.wire, last) }
func (f family) world() netip.Addr         { return f.node(100) }

func ending(p netip.Prefix, last byte) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1] = last
	ip, _ := netip.AddrFromSlice(b)
	return ip
}
