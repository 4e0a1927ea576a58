package pod2

import (
	"net/netip"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
)

// Holder has, or keeps, an address of a Network.
type Holder struct {
	Network string
	v1.AddressEntry
	// ScaledAway is true if the address is kept for a replica that another owner no
	// longer has: see network.Replicas.
	ScaledAway bool
}

// Holders returns the holders of the addresses that a spec wants by name, from the
// AddressBlocks. A free address has none. block returns the AddressBlock with a name, nil
// if it does not exist.
func Holders(p *v1.Pod2, block func(name string) *v1.AddressBlock) []Holder {
	var holders []Holder
	for _, n := range p.Spec.Networks {
		wanted := map[netip.Addr]bool{}
		var names []string
		for _, text := range n.Addresses {
			// The schema refuses addresses that netip does not parse.
			if address, err := netip.ParseAddr(string(text)); err == nil {
				wanted[address] = true
				names = append(names, ipam.BlockName(n.Name, ipam.Block(address)))
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			b := block(name)
			if b == nil || b.Spec.Network != n.Name {
				continue
			}
			for _, e := range b.Spec.Entries {
				if address, err := netip.ParseAddr(e.Address); err == nil && wanted[address] {
					holders = append(holders, Holder{Network: n.Name, AddressEntry: e})
				}
			}
		}
	}
	return holders
}
