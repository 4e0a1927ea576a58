package ipam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
)

// refused lists the ranges that a Network's CIDR must not overlap. EndpointSlices refuse
// endpoints that are unspecified, loopback or link-local, and a pod cannot be a multicast
// group. IPv4-mapped addresses are IPv4 to every socket: such a CIDR would hand out
// addresses of the other family.
var refused = []struct {
	what string
	cidr netip.Prefix
}{
	{"this network", netip.MustParsePrefix("0.0.0.0/8")},
	{"loopback", netip.MustParsePrefix("127.0.0.0/8")},
	{"link-local", netip.MustParsePrefix("169.254.0.0/16")},
	{"multicast", netip.MustParsePrefix("224.0.0.0/4")},
	{"unspecified", netip.MustParsePrefix("::/128")},
	{"loopback", netip.MustParsePrefix("::1/128")},
	{"IPv4-mapped", netip.MustParsePrefix("::ffff:0:0/96")},
	{"link-local", netip.MustParsePrefix("fe80::/10")},
	{"multicast", netip.MustParsePrefix("ff00::/8")},
}

// CheckCIDR reads the CIDR of a Network. Like the CRD's validation rules, it refuses text
// that does not parse, IPv4-mapped IPv6, host bits, and an IPv6 prefix longer than /127.
// It also refuses a CIDR that overlaps loopback, link-local, multicast, 0.0.0.0/8 or
// "::". The error suggests a valid CIDR.
func CheckCIDR(s string) (netip.Prefix, error) {
	p, err := parsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("CIDR %q: %w", s, err)
	}
	// This comes before the check of host bits: advice to clear those must not lead to
	// another refusal.
	for _, r := range refused {
		if p.Overlaps(r.cidr) {
			return netip.Prefix{}, fmt.Errorf("CIDR %q overlaps %s (%s), which pods cannot use: write a CIDR outside it, for example 192.168.0.0/16 or fd00:10::/64", s, r.cidr, r.what)
		}
	}
	if err := refuseHostBits(p); err != nil {
		return netip.Prefix{}, fmt.Errorf("CIDR %q: %w", s, err)
	}
	if p.Bits() > 127 {
		return netip.Prefix{}, fmt.Errorf("CIDR %q is one IPv6 address: write /127 or larger, for example %q", s, netip.PrefixFrom(p.Addr(), 127).Masked())
	}
	return p, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("is invalid: write an address and a prefix length, for example 192.168.0.0/16 or fd00:10::/64: %w", err)
	}
	if !p.Addr().Is4In6() {
		return p, nil
	}
	if p.Bits() < 96 {
		return netip.Prefix{}, errors.New("is IPv4-mapped IPv6: write IPv4, for example 192.168.0.0/16")
	}
	return netip.Prefix{}, fmt.Errorf("is IPv4-mapped IPv6: write %q", netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked())
}

func refuseHostBits(p netip.Prefix) error {
	if p != p.Masked() {
		return fmt.Errorf("has bits set after the prefix: write %q", p.Masked())
	}
	return nil
}

// DefaultGateway returns the gateway of a Network that names none: the first usable
// address of cidr. It ignores exclusions, so a change of them never moves it. It is the
// lower address of a /31 and of a /127. A /32 has none, because its only address is for a
// pod.
func DefaultGateway(cidr netip.Prefix) (netip.Addr, bool) {
	if !cidr.IsValid() || cidr.IsSingleIP() {
		return netip.Addr{}, false
	}
	return usable(cidr).First, true
}

// LastOf returns the last address of p: the broadcast address of an IPv4 subnet. It is
// the zero Addr for an invalid prefix.
func LastOf(p netip.Prefix) netip.Addr {
	if !p.IsValid() {
		return netip.Addr{}
	}
	hi, lo := words(p.Addr())
	n := p.Bits() + 128 - p.Addr().BitLen()
	hi |= math.MaxUint64 >> n // a shift by 64 and more leaves 0
	lo |= math.MaxUint64 >> max(n-64, 0)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	last := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		last = last.Unmap()
	}
	return last
}

// usable returns the addresses that the form of a valid cidr leaves to hosts: the table
// at the top of the package.
func usable(cidr netip.Prefix) Range {
	all := Range{cidr.Masked().Addr(), LastOf(cidr)}
	if cidr.Addr().BitLen()-cidr.Bits() <= 1 {
		return all
	}
	all.First = all.First.Next()
	if cidr.Addr().Is4() {
		all.Last = all.Last.Prev()
	}
	return all
}
