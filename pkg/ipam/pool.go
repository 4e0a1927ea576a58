// Package ipam is the arithmetic of a Network's addresses: which ones a CIDR
// has, which of them may be handed out, and in which block of the ledger each
// stands. IPv4 and IPv6 are one code path, and no address is ever enumerated:
// time and memory depend on the number of exclusions only, so that a /8 and a
// /64 cost as much as a /24.
//
// What a CIDR leaves to hosts, before its gateway and its exclusions are taken out:
//
//	              first address                 last address
//	IPv4 to /30   no: network                   no: broadcast (RFC 919)
//	IPv4 /31      yes                           yes (RFC 3021)
//	IPv4 /32      yes, the only one
//	IPv6 to /126  no: subnet-router anycast     yes
//	              (RFC 4291, 2.6.1)
//	IPv6 /127     yes                           yes (RFC 6164)
//
// The anycast addresses of RFC 2526, the last 128 of an IPv6 subnet, are handed
// out like others: exclude them where routers use them.
package ipam

import (
	"fmt"
	"math"
	"net/netip"
)

// Pool is the addresses of a CIDR that may be handed out. It is immutable, so
// safe for concurrent use. The zero Pool hands out nothing.
//
//	10.0.0.0/28, gateway .1, excluded .4-.5 and .6
//	  .0 network  .1 gateway  .2-.3 free  .4-.6 excluded  .7-.14 free  .15 broadcast
type Pool struct {
	cidr     netip.Prefix
	gateway  netip.Addr
	usable   Range
	excluded []Range // clipped to cidr, merged, sorted
	free     []Range // what is left of usable, sorted; no two of them touch
}

// NewPool returns what cidr leaves to hosts, without gateway and without
// exclude. The zero Addr means that there is no gateway. A gateway outside cidr,
// and exclusions of the other family or outside cidr, take nothing away. The
// exclusions may overlap and come in any order; they are copied. Host bits of
// cidr are ignored; the zero Prefix gives a Pool that hands out nothing. It takes
// O(n log n) time in the number of exclusions.
func NewPool(cidr netip.Prefix, gateway netip.Addr, exclude []Range) Pool {
	if !cidr.IsValid() {
		return Pool{}
	}
	p := Pool{cidr: cidr.Masked(), gateway: gateway, usable: usable(cidr)}
	all := Range{p.cidr.Addr(), LastOf(cidr)}
	for _, r := range exclude {
		if r, ok := r.clip(all); ok {
			p.excluded = append(p.excluded, r)
		}
	}
	p.excluded = merge(p.excluded)

	// The gateway is not put among p.excluded: Refusal tells the two apart.
	holes := append(make([]Range, 0, len(p.excluded)+1), p.excluded...)
	if all.Contains(gateway) {
		holes = merge(append(holes, Range{gateway, gateway}))
	}
	p.free = without(p.usable, holes)
	return p
}

// without returns bounds less holes. The holes are sorted and no two touch; they
// may begin or end outside bounds.
func without(bounds Range, holes []Range) []Range {
	free := make([]Range, 0, len(holes)+1)
	rest := bounds
	for _, h := range holes {
		h, ok := h.clip(bounds)
		if !ok {
			continue
		}
		if rest.First.Less(h.First) {
			free = append(free, Range{rest.First, h.First.Prev()})
		}
		// Before Next, which is no address after the very last one of a family.
		if h.Last == bounds.Last {
			return free
		}
		rest.First = h.Last.Next()
	}
	return append(free, rest)
}

// Capacity returns the number of addresses that may be handed out, bound or
// not: 0 or more. It saturates at math.MaxInt64, which an IPv6 /64 exceeds.
func (p Pool) Capacity() int64 {
	var n int64
	for _, r := range p.free {
		size := r.size()
		if size > math.MaxInt64-n {
			return math.MaxInt64
		}
		n += size
	}
	return n
}

// Refusal returns "" when a may be handed out, else why not, as the predicate
// of a sentence about a: "is outside 10.0.0.0/24", "is the network address",
// "is the subnet-router anycast address", "is the broadcast address", "is the
// gateway", "is excluded by 10.0.0.16-10.0.0.31". The first of these that
// applies is given. Exclusions that overlap or touch are named as one range,
// clipped to the CIDR.
func (p Pool) Refusal(a netip.Addr) string {
	switch {
	case !p.cidr.Contains(a): // another family, a zone and the zero Addr too
		return fmt.Sprintf("is outside %s", p.cidr)
	case a.Less(p.usable.First) && a.Is4():
		return "is the network address"
	case a.Less(p.usable.First):
		return "is the subnet-router anycast address"
	case p.usable.Last.Less(a):
		return "is the broadcast address"
	case a == p.gateway:
		return "is the gateway"
	}
	if i := seek(p.excluded, a); i < len(p.excluded) && p.excluded[i].Contains(a) {
		return fmt.Sprintf("is excluded by %s", p.excluded[i])
	}
	return ""
}

// Next returns the lowest address at or above from that may be handed out,
// false when there is none. A from below the CIDR starts at its first address;
// one of the other family, with a zone, or zero finds nothing, so that
//
//	for a, ok := p.First(); ok; a, ok = p.Next(a.Next())
//
// ends at 255.255.255.255 too, whose Next is the zero Addr. It takes
// O(log(exclusions)) time and allocates nothing.
func (p Pool) Next(from netip.Addr) (netip.Addr, bool) {
	if from.BitLen() != p.cidr.Addr().BitLen() || from.Zone() != "" {
		return netip.Addr{}, false
	}
	i := seek(p.free, from)
	if i == len(p.free) {
		return netip.Addr{}, false
	}
	if from.Less(p.free[i].First) {
		return p.free[i].First, true
	}
	return from, true
}

// HasAll says whether every address of r may be handed out, in O(log(exclusions))
// time.
func (p Pool) HasAll(r Range) bool {
	i := seek(p.free, r.First)
	return i < len(p.free) && p.free[i].Contains(r.First) && p.free[i].Contains(r.Last)
}

// First returns the lowest address that may be handed out, false when there is none.
func (p Pool) First() (netip.Addr, bool) {
	if len(p.free) == 0 {
		return netip.Addr{}, false
	}
	return p.free[0].First, true
}
