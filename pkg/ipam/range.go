package ipam

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
)

// Range has the addresses First..Last, both included, of one family. ParseRange returns
// well-formed ones. A Range that is reversed, of two families, zoned or zero contains and
// excludes nothing.
type Range struct{ First, Last netip.Addr }

// ParseRange reads one of three forms:
//
//	192.168.0.0/24               a CIDR, all of it, without host bits
//	192.168.7.10-192.168.7.99    two addresses of one family, the lower one first
//	192.168.7.10                 one address
//
// It refuses spaces, also around the '-', so a range has one spelling. It also refuses
// zones, and IPv4-mapped IPv6 (::ffff:192.0.2.1), which every comparison would treat as
// the other family.
func ParseRange(s string) (Range, error) {
	if strings.ContainsAny(s, " \t\r\n") {
		return Range{}, fmt.Errorf("address range %q contains a space: remove it", s)
	}
	if strings.Contains(s, "/") {
		p, err := parsePrefix(s)
		if err == nil {
			err = refuseHostBits(p)
		}
		if err != nil {
			return Range{}, fmt.Errorf("address range %q: %w", s, err)
		}
		last := LastOf(p)
		if p.Addr().Is6() && last.Is4In6() {
			return Range{}, fmt.Errorf("address range %q ends in %s, which is IPv4-mapped IPv6: write a CIDR outside ::ffff:0.0.0.0/96", s, last)
		}
		return Range{p.Addr(), last}, nil
	}
	low, high, two := strings.Cut(s, "-")
	if !two {
		high = low
	}
	first, err := parseAddr(low)
	if err != nil {
		return Range{}, fmt.Errorf("address range %q: %w", s, err)
	}
	last, err := parseAddr(high)
	if err != nil {
		return Range{}, fmt.Errorf("address range %q: %w", s, err)
	}
	if first.BitLen() != last.BitLen() {
		return Range{}, fmt.Errorf("address range %q mixes IPv4 and IPv6: write one range for each", s)
	}
	if last.Less(first) {
		return Range{}, fmt.Errorf("address range %q is reversed: write \"%s-%s\"", s, last, first)
	}
	return Range{first, last}, nil
}

func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is invalid: write ADDRESS, FIRST-LAST or a CIDR, for example 192.168.7.10-192.168.7.99: %w", s, err)
	case a.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%q has a zone: write %q", s, a.WithZone(""))
	case a.Is4In6():
		return netip.Addr{}, fmt.Errorf("%q is IPv4-mapped IPv6: write %q", s, a.Unmap())
	}
	return a, nil
}

// Contains reports whether a is one of the addresses. It is false for another family, for
// a zoned address and for the zero Addr.
func (r Range) Contains(a netip.Addr) bool {
	return r.wellFormed() && a.IsValid() && a.Zone() == "" &&
		r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// Overlaps reports whether one of the addresses is in cidr. Host bits of cidr are ignored.
func (r Range) Overlaps(cidr netip.Prefix) bool {
	_, overlaps := r.clip(Range{cidr.Masked().Addr(), LastOf(cidr)})
	return overlaps
}

// String returns "FIRST-LAST", or only the address if there is one. ParseRange reads it
// back.
func (r Range) String() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.First.String() + "-" + r.Last.String()
}

func (r Range) wellFormed() bool {
	return r.First.IsValid() && r.First.BitLen() == r.Last.BitLen() &&
		r.First.Zone() == "" && r.Last.Zone() == "" && r.First.Compare(r.Last) <= 0
}

// clip returns the part of r inside bounds, and false if there is none.
func (r Range) clip(bounds Range) (Range, bool) {
	if !r.wellFormed() {
		return Range{}, false
	}
	if r.First.Less(bounds.First) {
		r.First = bounds.First
	}
	if bounds.Last.Less(r.Last) {
		r.Last = bounds.Last
	}
	// Addr orders families before values, so here a range of the other family is reversed
	// or of two families.
	return r, r.wellFormed()
}

// size returns the number of addresses of a well-formed Range, at most math.MaxInt64.
func (r Range) size() int64 {
	firstHi, firstLo := words(r.First)
	lastHi, lastLo := words(r.Last)
	lo, borrow := bits.Sub64(lastLo, firstLo, 0)
	hi, _ := bits.Sub64(lastHi, firstHi, borrow)
	if hi != 0 || lo >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo) + 1
}

// words returns a as a 128-bit number. IPv4 has its mapped form, in which distances are
// the same.
func words(a netip.Addr) (hi, lo uint64) {
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

// merge sorts rs in place and joins those that overlap or touch:
//
//	.16-.31  .8  .20-.40  .41   ->   .8  .16-.41
func merge(rs []Range) []Range {
	slices.SortFunc(rs, func(a, b Range) int { return a.First.Compare(b.First) })
	merged := rs[:0]
	for _, r := range rs {
		n := len(merged)
		// Both tests are needed: Next of the last address of a family is the zero Addr,
		// which touches nothing.
		if n == 0 || (merged[n-1].Last.Less(r.First) && merged[n-1].Last.Next() != r.First) {
			merged = append(merged, r)
		} else if merged[n-1].Last.Less(r.Last) {
			merged[n-1].Last = r.Last
		}
	}
	return merged
}

// seek returns the index of the first range that ends at or above a, or len(rs) if there
// is none. rs is sorted and disjoint.
func seek(rs []Range, a netip.Addr) int {
	i, _ := slices.BinarySearchFunc(rs, a, func(r Range, a netip.Addr) int { return r.Last.Compare(a) })
	return i
}
