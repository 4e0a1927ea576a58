//go:build linux

package kernel

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Rules are the rules of the node as the kernel has them.
type Rules struct{ content content }

// ReadRules of the node. There are none before the agent's first sync.
func ReadRules() (Rules, error) {
	c, err := readTable()
	return Rules{c}, err
}

// Drops are the packets that the rules dropped since they were written, by the comment of each rule.
func (r Rules) Drops() map[string]uint64 {
	drops := map[string]uint64{}
	r.content.count(drops)
	return drops
}

// Refuses returns the comments of the rules that drop packets of Networks to the address: node, api and denied. The
// rules with api match also the port.
func (r Rules) Refuses(to netip.Addr) (comments []string) {
	for _, rule := range r.content.rules["outbound"] {
		if r.matches(rule.Exprs, to.AsSlice()) {
			comments = append(comments, comment(rule))
		}
	}
	return comments
}

// matches says whether the expressions look the destination up in a set, and it is there.
func (r Rules) matches(list []expr.Any, to []byte) bool {
	offset := map[int]uint32{4: 16, 16: 24}[len(to)] // in the header of IPv4 and of IPv6
	reads := slices.ContainsFunc(list, func(e expr.Any) bool {
		p, ok := e.(*expr.Payload)
		return ok && p.Base == expr.PayloadBaseNetworkHeader && p.Offset == offset && int(p.Len) == len(to)
	})
	return reads && slices.ContainsFunc(list, func(e expr.Any) bool {
		lookup, ok := e.(*expr.Lookup)
		return ok && r.has(lookup.SetName, to)
	})
}

// has says whether a set has the address: alone, at the beginning of a key, or in an interval. A set of intervals has their
// beginnings and ends, in order.
func (r Rules) has(name string, address []byte) (found bool) {
	intervals := slices.ContainsFunc(r.content.sets, func(s *nftables.Set) bool { return s.Name == name && s.Interval })
	for _, e := range r.content.elements[name] {
		if intervals && bytes.Compare(e.Key, address) <= 0 {
			found = !e.IntervalEnd
		} else if !intervals && bytes.HasPrefix(e.Key, address) {
			return true
		}
	}
	return found
}
