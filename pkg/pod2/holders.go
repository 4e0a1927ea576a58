package pod2

import (
	"net/netip"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
)

// Holder is who has, or keeps, an address of a Network.
type Holder struct {
	Network string
	v1.AddressEntry
	// ScaledAway says that it is kept for a replica that another owner no longer has:
	// see network.Replicas.
	ScaledAway bool
}

// Holders are those of the addresses that a spec wants by name, as AddressBlocks have them.
// An address that nobody has is not among them. block returns the AddressBlock of a name,
// nil if there is none.
func Holders(p *v1.Pod2, block func(name string) *v1.AddressBlock) []Holder {
	var holders []Holder
	for _, n := range p.Spec.Networks {
		wanted := map[netip.Addr]bool{}
		var names []string
		for _, text := range n.Addresses {
			// The schema refuses what netip does not read.
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
