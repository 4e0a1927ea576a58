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
	for _, rule := range r.content.rules["forward"] {
		if name := comment(rule); name != "vxlan" && r.matches(rule.Exprs, to.AsSlice()) {
			comments = append(comments, name)
		}
	}
	return comments
}

// matches says whether the expressions compare the destination, and it is that one.
func (r Rules) matches(list []expr.Any, to []byte) bool {
	offset := map[int]uint32{4: 16, 16: 24}[len(to)] // in the header of IPv4 and of IPv6
	begin := slices.IndexFunc(list, func(e expr.Any) bool {
		p, ok := e.(*expr.Payload)
		return ok && p.Base == expr.PayloadBaseNetworkHeader && p.Offset == offset && int(p.Len) == len(to)
	})
	for i := begin; i >= 0 && i < len(list); i++ {
		switch e := list[i].(type) {
		case *expr.Lookup: // its keys begin with the address
			return slices.ContainsFunc(r.content.elements[e.SetName], func(e nftables.SetElement) bool { return bytes.HasPrefix(e.Key, to) })
		case *expr.Bitwise:
			masked := bytes.Clone(to)
			for k := range min(len(masked), len(e.Mask)) {
				masked[k] &= e.Mask[k]
			}
			to = masked
		case *expr.Cmp:
			return bytes.Equal(to, e.Data)
		}
	}
	return false
}
