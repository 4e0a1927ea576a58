// Package ipam does the arithmetic of a Network's addresses: which addresses a CIDR has,
// which of them may be handed out, and which AddressBlock covers each. IPv4 and IPv6
// share one code path. No code enumerates addresses: time and memory depend only on the
// number of exclusions, so a /8 and a /64 cost as much as a /24.
//
// The addresses that a CIDR leaves to hosts, before its gateway and exclusions are removed:
//
//	              first address                 last address
//	IPv4 to /30   no: network                   no: broadcast (RFC 919)
//	IPv4 /31      yes                           yes (RFC 3021)
//	IPv4 /32      yes, the only one
//	IPv6 to /126  no: subnet-router anycast     yes
//	              (RFC 4291, 2.6.1)
//	IPv6 /127     yes                           yes (RFC 6164)
//
// The anycast addresses of RFC 2526, the last 128 of an IPv6 subnet, are handed out like
// others. Exclude them if routers use them.
//
// After a CIDR has grown, two addresses remain special. Every pod that runs with the
// smaller CIDR still uses its network and broadcast address. See [Pool.Formerly].
// [Pool.Formerly].
package ipam

import (
	"fmt"
	"math"
	"net/netip"
)

// Pool has the addresses of a CIDR that may be handed out. It is immutable, so it is safe
// for concurrent use. The zero Pool hands out nothing.
//
//	10.0.0.0/28, gateway .1, excluded .4-.5 and .6
//	  .0 network  .1 gateway  .2-.3 free  .4-.6 excluded  .7-.14 free  .15 broadcast
//
// An address on request may be handed out to a pod that asks for it, but Next and First
// skip it: see [Pool.OnRequest].
type Pool struct {
	cidr     netip.Prefix
	gateway  netip.Addr
	usable   Range
	former   []netip.Prefix
	excluded []Range // clipped to cidr, merged, sorted
	request  []Range // likewise
	given    []Range // the rest of usable, sorted; no two ranges touch
	free     []Range // given less request
}

// NewPool returns the addresses that cidr leaves to hosts, without gateway and exclude.
// The zero Addr means that there is no gateway. A gateway or an exclusion outside cidr
// has no effect. Exclusions may overlap and have any order; they are copied. Host bits of
// cidr are ignored. The zero Prefix gives a Pool that hands out nothing. NewPool takes
// O(n log n) time in the number of exclusions.
func NewPool(cidr netip.Prefix, gateway netip.Addr, exclude []Range) Pool {
	if !cidr.IsValid() {
		return Pool{}
	}
	p := Pool{cidr: cidr.Masked(), gateway: gateway, usable: usable(cidr)}
	p.excluded = p.clip(exclude)
	return p.cut()
}

// Formerly takes the CIDRs from which the Pool's CIDR grew. It returns the Pool without
// their network and broadcast addresses (IPv6: the subnet-router anycast addresses).
// CIDRs outside it, and the CIDR itself, have no effect.
func (p Pool) Formerly(cidrs []netip.Prefix) Pool {
	p.former = nil
	for _, c := range cidrs {
		if c.IsValid() && c.Bits() > p.cidr.Bits() && p.cidr.Contains(c.Addr()) {
			p.former = append(p.former, c.Masked())
		}
	}
	return p.cut()
}

// OnRequest returns the Pool with these addresses on request: Refusal and Capacity are
// unchanged, but Next, First, Has and HasAll do not find them. The ranges are read like
// the exclusions of NewPool.
func (p Pool) OnRequest(ranges []Range) Pool {
	p.request = p.clip(ranges)
	return p.cut()
}

// clip returns the parts of the ranges inside the CIDR, merged and sorted.
func (p Pool) clip(ranges []Range) []Range {
	all := Range{p.cidr.Addr(), LastOf(p.cidr)}
	var clipped []Range
	for _, r := range ranges {
		if r, ok := r.clip(all); ok {
			clipped = append(clipped, r)
		}
	}
	return merge(clipped)
}

// cut returns the Pool with given and free computed from the other fields.
func (p Pool) cut() Pool {
	if !p.cidr.IsValid() {
		return Pool{}
	}
	// Gateway and former CIDRs are not in p.excluded, because Refusal tells them apart.
	holes := append(make([]Range, 0, len(p.excluded)+len(p.request)+2*len(p.former)+1), p.excluded...)
	if p.cidr.Contains(p.gateway) {
		holes = append(holes, Range{p.gateway, p.gateway})
	}
	for _, c := range p.former {
		all, hosts := Range{c.Addr(), LastOf(c)}, usable(c)
		for _, edge := range [2][2]netip.Addr{{all.First, hosts.First}, {all.Last, hosts.Last}} {
			if edge[0] != edge[1] {
				holes = append(holes, Range{edge[0], edge[0]})
			}
		}
	}
	holes = merge(holes)
	p.given = without(p.usable, holes)
	p.free = p.given
	if len(p.request) > 0 {
		p.free = without(p.usable, merge(append(holes, p.request...)))
	}
	return p
}

// without returns bounds without holes. The holes are sorted and no two touch; they may
// begin or end outside bounds.
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
		// This comes before Next, which returns no address after the last one of a family.
		if h.Last == bounds.Last {
			return free
		}
		rest.First = h.Last.Next()
	}
	return append(free, rest)
}

// Capacity returns the number of addresses that may be handed out, bound or not: 0 or
// more. It is at most math.MaxInt64, which an IPv6 /64 exceeds.
func (p Pool) Capacity() int64 { return total(p.given) }

// ForAny returns how many of them a pod that asks for any address may get: 0 or more,
// without those on request. It has the same maximum as Capacity.
func (p Pool) ForAny() int64 { return total(p.free) }

func total(ranges []Range) int64 {
	var n int64
	for _, r := range ranges {
		size := r.size()
		if size > math.MaxInt64-n {
			return math.MaxInt64
		}
		n += size
	}
	return n
}

// Refusal returns "" if a may be handed out to a pod that asks for it. Otherwise it
// returns the reason, as the predicate of a sentence about a. The first that applies
// wins:
//
//	is outside 10.0.0.0/24
//	is the network address
//	is the subnet-router anycast address
//	is the broadcast address
//	is the gateway
//	was the broadcast address in 10.0.0.0/29, a former CIDR (likewise network and anycast)
//	is excluded by 10.0.0.16-10.0.0.31
//
// Exclusions that overlap or touch are named as one range, clipped to the CIDR.
func (p Pool) Refusal(a netip.Addr) string {
	if why := p.NoPod(a); why != "" {
		return why
	}
	if i := seek(p.excluded, a); i < len(p.excluded) && p.excluded[i].Contains(a) {
		return fmt.Sprintf("is excluded by %s", p.excluded[i])
	}
	return ""
}

// NoPod is Refusal without the exclusions. It returns "" if a pod that has a may keep it.
func (p Pool) NoPod(a netip.Addr) string {
	if why := NoHost(p.cidr, a); why != "" {
		return why
	}
	if a == p.gateway {
		return "is the gateway"
	}
	for _, c := range p.former {
		if edge := edgeOf(c, a); edge != "" {
			return fmt.Sprintf("was %s in %s, a former CIDR", edge, c)
		}
	}
	return ""
}

// NoHost returns "" if a host in cidr can have a. Otherwise it returns the reason, one of
// the first four of [Pool.Refusal]. Host bits of cidr are ignored.
func NoHost(cidr netip.Prefix, a netip.Addr) string {
	cidr = cidr.Masked()
	if !cidr.Contains(a) { // another family, a zone and the zero Addr too
		return fmt.Sprintf("is outside %s", cidr)
	}
	if edge := edgeOf(cidr, a); edge != "" {
		return "is " + edge
	}
	return ""
}

// edgeOf names the address of cidr that a is, if hosts cannot have it; otherwise it
// returns "".
func edgeOf(cidr netip.Prefix, a netip.Addr) string {
	hosts := usable(cidr)
	switch {
	case !cidr.Contains(a) || hosts.Contains(a):
		return ""
	case hosts.Last.Less(a):
		return "the broadcast address"
	case a.Is4():
		return "the network address"
	}
	return "the subnet-router anycast address"
}

// Next returns the lowest address at or above from for a pod that asks for no particular
// address, and false if there is none. If from is below the CIDR, it starts at the first address.
// If from is of the other family, has a zone or is zero, it finds nothing, so
//
//	for a, ok := p.First(); ok; a, ok = p.Next(a.Next())
//
// ends at 255.255.255.255 too, whose Next is the zero Addr. Next takes O(log(exclusions))
// time and allocates nothing.
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

// Has says whether a pod that asks for any address may get a. It takes O(log(exclusions))
// time.
func (p Pool) Has(a netip.Addr) bool { return p.HasAll(Range{a, a}) }

// HasAll says whether a pod that asks for any address may get each address of r. It takes
// O(log(exclusions)) time.
func (p Pool) HasAll(r Range) bool {
	i := seek(p.free, r.First)
	return i < len(p.free) && p.free[i].Contains(r.First) && p.free[i].Contains(r.Last)
}

// HasAny says whether an address of r may be handed out, perhaps only on request. It takes
// O(log(exclusions)) time.
func (p Pool) HasAny(r Range) bool {
	i := seek(p.given, r.First)
	return i < len(p.given) && !r.Last.Less(p.given[i].First)
}

// Overlaps says whether both may hand out the same address, perhaps only on request, in
// linear time.
func (p Pool) Overlaps(q Pool) bool {
	for i, j := 0, 0; i < len(p.given) && j < len(q.given); {
		a, b := p.given[i], q.given[j]
		switch {
		case a.Last.Less(b.First):
			i++
		case b.Last.Less(a.First):
			j++
		default:
			return true
		}
	}
	return false
}

// First returns the lowest address that a pod that asks for any may get, and false if
// there is none.
func (p Pool) First() (netip.Addr, bool) {
	if len(p.free) == 0 {
		return netip.Addr{}, false
	}
	return p.free[0].First, true
}
