//go:build linux && kernel

package node

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
	// transit holds the transit addresses. cache is an address of node1 that its Node does
	// not list, as NodeLocal DNSCache uses. metadata is that of a cloud.
	transit         netip.Prefix
	cache, metadata netip.Addr
	etherType       uint16
}

const blueVNI, greenVNI = 70001, 70002

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

var (
	ipv4 = family{"IPv4", netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("100.64.0.0/16"),
		addr("169.254.20.10"), addr("169.254.169.254"), unix.ETH_P_IP}
	ipv6 = family{"IPv6", netip.MustParsePrefix("fd00:10::/64"), netip.MustParsePrefix("fd0a::/64"), netip.MustParsePrefix("fd64:706f:6432::/96"),
		addr("fd00:20::10"), addr("fd00:ec2::254"), unix.ETH_P_IPV6}
)

// eachFamily runs a test over both families.
func eachFamily(t *testing.T, test func(t *testing.T, f family)) {
	t.Parallel()
	for _, f := range []family{ipv4, ipv6} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
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
func (f family) twoByTwo(t testing.TB) (l *lab, blue, green [2]*labPod) {
	t.Helper()
	return f.twoByTwoOn(newLab(t, 2))
}

func (f family) twoByTwoOn(l *lab) (_ *lab, blue, green [2]*labPod) {
	l.Helper()
	if f.wire.Addr().Is6() && l.nodes[0].address.Is4() {
		l.alsoIPv6()
	}
	b, g := l.network("blue", blueVNI, f.cidr.String()), l.network("green", greenVNI, f.cidr.String())
	for i, n := range l.nodes[:2] {
		ip := f.pod(byte(i + 2)).String()
		blue[i], green[i] = n.pod("blue"+string(rune('1'+i)), b, ip), n.pod("green"+string(rune('1'+i)), g, ip)
	}
	l.attach(blue[0], blue[1], green[0], green[1])
	return l, blue, green
}

func twoByTwo(t testing.TB) (l *lab, blue, green [2]*labPod) {
	t.Helper()
	return ipv4.twoByTwo(t)
}

// alsoIPv6 gives the nodes and the world IPv6 addresses too.
func (l *lab) alsoIPv6() {
	l.Helper()
	for i, n := range l.nodes {
		ip := ipv6.node(byte(i + 1))
		l.give(n.name, "eth0", netip.PrefixFrom(ip, 64))
		l.addressed[i].addresses = append(l.addressed[i].addresses, ip)
	}
	l.give("world", "eth0", netip.PrefixFrom(ipv6.world(), 64))
}

// give an interface of a namespace an address.
func (l *lab) give(namespace, dev string, p netip.Prefix) {
	l.Helper()
	l.in(namespace, func() error { return addressOn(dev, p) })
}

func only(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }
