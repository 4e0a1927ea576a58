package tables

import (
	"bytes"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// claims are the slices that have an address with a MAC address. Most MAC addresses have one. The
// lists of the slices have the rest, so a claim takes few bytes.
type claims struct {
	one map[dataplane.MAC]*dataplane.Slice
	// more has the MAC addresses that several addresses share, or one address in several slices.
	more map[dataplane.MAC][]*dataplane.Slice
}

func newClaims() claims {
	return claims{map[dataplane.MAC]*dataplane.Slice{}, map[dataplane.MAC][]*dataplane.Slice{}}
}

// of returns the slices that claim the MAC address.
func (c claims) of(mac dataplane.MAC) []*dataplane.Slice {
	if s := c.one[mac]; s != nil {
		return []*dataplane.Slice{s}
	}
	return c.more[mac]
}

// update the claim of a slice that has changed.
func (c claims) update(mac dataplane.MAC, s *dataplane.Slice) {
	var list []*dataplane.Slice
	many := 0
	for _, other := range append(slices.DeleteFunc(c.of(mac), func(other *dataplane.Slice) bool { return other == s }), s) {
		if addresses := len(locations(other, mac)); addresses > 0 {
			list, many = append(list, other), many+addresses
		}
	}
	delete(c.one, mac)
	delete(c.more, mac)
	switch many {
	case 0:
	case 1:
		c.one[mac] = list[0]
	default:
		c.more[mac] = list
	}
}

// locations of the slice that have the MAC address.
func locations(s *dataplane.Slice, mac dataplane.MAC) []dataplane.Location {
	begin, _ := slices.BinarySearchFunc(s.Locations, mac, compareMAC)
	end := begin
	for end < len(s.Locations) && dataplane.MACOf(s.Locations[end].Address) == mac {
		end++
	}
	return s.Locations[begin:end]
}

func compareMAC(l dataplane.Location, mac dataplane.MAC) int {
	is := dataplane.MACOf(l.Address)
	return bytes.Compare(is[:], mac[:])
}

// differences yields the Locations that only one of the two lists has: -1 for the first, 1 for the second.
func differences(was, is []dataplane.Location) iter.Seq2[dataplane.Location, int] {
	return func(yield func(dataplane.Location, int) bool) {
		for len(was)+len(is) > 0 {
			order := 0
			switch {
			case len(is) == 0:
				order = -1
			case len(was) == 0:
				order = 1
			default:
				order = was[0].Compare(is[0])
			}
			same := order == 0 && was[0] == is[0]
			if order <= 0 {
				if !same && !yield(was[0], -1) {
					return
				}
				was = was[1:]
			}
			if order >= 0 {
				if !same && !yield(is[0], 1) {
					return
				}
				is = is[1:]
			}
		}
	}
}

// counts says whether a pod of the Network has the address there. A pod of this node has its address
// even while a slice lags behind.
func (d *Desired) counts(n *network, s *dataplane.Slice, l dataplane.Location) bool {
	return s.Owner == n.owner && n.has(l.Address) && n.byIP[l.Address] == nil
}

// reaches says whether this node can send VXLAN to the host.
func (d *Desired) reaches(host netip.Addr) bool {
	return d.local.IsValid() && host.Is4() == d.local.Is4() && host != d.local
}

// remote returns the locations with the MAC address that count, one for each address and in the
// order of addresses. If several slices have an address, the one with the highest name counts.
func (d *Desired) remote(n *network, mac dataplane.MAC) []dataplane.Location {
	list := n.claims.of(mac)
	if len(list) > 1 {
		list = slices.SortedFunc(slices.Values(list), func(a, b *dataplane.Slice) int { return strings.Compare(b.Name, a.Name) })
	}
	var found []dataplane.Location
	for _, s := range list {
		for _, l := range locations(s, mac) {
			if d.counts(n, s, l) && d.reaches(l.Host) && !slices.ContainsFunc(found, func(other dataplane.Location) bool { return other.Address == l.Address }) {
				found = append(found, l)
			}
		}
	}
	slices.SortFunc(found, dataplane.Location.Compare)
	return found
}
