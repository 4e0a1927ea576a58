//go:build linux && kernel

package kernel

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// family holds the differences between a test over IPv4 and the same over IPv6.
type family struct {
	name string
	// cidr is the CIDR of each Network, wire that of the nodes.
	cidr, wire netip.Prefix
	// transit holds all addresses between nodes and routers. near are the node's ends for
	// blue and green; far is the router's end for blue. cache is an address of node1 that
	// its Node does not list, as NodeLocal DNSCache uses.
	transit   netip.Prefix
	near      [2]netip.Addr
	far       netip.Addr
	cache     netip.Addr
	etherType uint16
	// headers is the size of the IP and TCP headers in bytes.
	headers uint16
}

var (
	ipv4 = family{"IPv4", netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("100.64.0.0/16"),
		[2]netip.Addr{netip.MustParseAddr("100.64.0.0"), netip.MustParseAddr("100.64.0.2")}, netip.MustParseAddr("100.64.0.1"), netip.MustParseAddr("169.254.20.10"), unix.ETH_P_IP, 40}
	ipv6 = family{"IPv6", netip.MustParsePrefix("fd00:10::/64"), netip.MustParsePrefix("fd0a::/64"), netip.MustParsePrefix("fd64:706f:6432::/96"),
		[2]netip.Addr{netip.MustParseAddr("fd64:706f:6432::7d2"), netip.MustParseAddr("fd64:706f:6432::7d4")}, netip.MustParseAddr("fd64:706f:6432::7d3"), netip.MustParseAddr("fd00:20::10"), unix.ETH_P_IPV6, 60}
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

// packet of UDP to port 7 that needs no answer.
func (f family) packet(from, to netip.Addr) []byte {
	if from.Is4() {
		return udp4(from, to, 7, "")
	}
	b := append([]byte{0x60, 0, 0, 0, 0, 8, unix.IPPROTO_UDP, 64}, from.AsSlice()...)
	return append(append(b, to.AsSlice()...), 0x10, 0, 0, 7, 0, 8, 0, 0)
}

// twoByTwo has the Networks blue and green with one CIDR. Each has a pod on each of two
// nodes; both Networks use the same addresses.
func (f family) twoByTwo(t *testing.T) (c *cluster, blue, green [2]*pod) {
	t.Helper()
	c = newCluster(t, 2)
	if f.wire.Addr().Is6() {
		c.alsoIPv6()
	}
	b, g := c.network("blue", 1001, f.cidr.String()), c.network("green", 1002, f.cidr.String())
	for i := range 2 {
		ip := f.pod(byte(i + 2)).String()
		blue[i], green[i] = c.nodes[i].pod("blue"+string(rune('1'+i)), b, ip), c.nodes[i].pod("green"+string(rune('1'+i)), g, ip)
		c.nodes[i].attach(blue[i])
		c.nodes[i].attach(green[i])
	}
	c.sync()
	return c, blue, green
}

func twoByTwo(t *testing.T) (c *cluster, blue, green [2]*pod) {
	t.Helper()
	return ipv4.twoByTwo(t)
}

// alsoIPv6 gives the nodes and the world IPv6 addresses too.
func (c *cluster) alsoIPv6() {
	c.Helper()
	give := func(name string, ip netip.Addr) {
		c.in(name, func() { c.addressOn("eth0", netip.PrefixFrom(ip, ipv6.wire.Bits())) })
	}
	for i, n := range c.nodes {
		ip := ipv6.node(byte(i + 1))
		give(n.name, ip)
		c.state.Nodes[i].Addresses = append(c.state.Nodes[i].Addresses, ip)
	}
	give("world", ipv6.world())
}
