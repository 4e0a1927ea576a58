package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
)

// ReasonOverlapsCluster is a reason of the condition Ready. Ready is False before the first
// bind of the Network, and True from then on.
const ReasonOverlapsCluster = "OverlapsCluster"

// ClusterRange is a range of addresses that the cluster itself uses.
type ClusterRange struct {
	Prefix netip.Prefix
	// Of names the owner of the range for people, such as "ServiceCIDR kubernetes".
	Of string
}

func (r ClusterRange) String() string { return fmt.Sprintf("%s (%s)", r.Of, r.Prefix) }

// addresses returns the addresses of the range.
func (r ClusterRange) addresses() ipam.Range {
	return ipam.Range{First: r.Prefix.Masked().Addr(), Last: ipam.LastOf(r.Prefix)}
}

// Overlaps says whether the CIDR of a Network has an address of the range. The Network may
// hand it out, even if something holds it back now.
func (r ClusterRange) Overlaps(n *v1.Network) bool {
	cidr, err := ipam.CheckCIDR(n.Spec.CIDR)
	return err == nil && cidr.Overlaps(r.Prefix)
}

// avoid keeps the Network off the ranges of the cluster. It considers each range that has an
// address which the Network would hand out:
//
//	the Network has never bound an         it serves no pod
//	address, or has no other address
//	it holds no address of this range      it hands out none of this range
//	it holds an address of this range      it continues and reports it: the range is newer
//	                                       than the Network, or Pod2 learned of it later
//
// The second row is for a Network that grows over a range of the cluster after its first
// bind, or whose spec.exclude shrinks.
func (v *view) avoid(s State) {
	if v.poolErr != nil || allowed(v.network, v.cidr, s.AllowedOverlaps) {
		return
	}
	var first *ClusterRange
	for i := range s.Cluster {
		r := &s.Cluster[i]
		if !r.Prefix.Overlaps(v.cidr) || !v.pool.HasAny(r.addresses()) {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(r.Of, first.Of), r.Prefix.Addr().Compare(first.Prefix.Addr()), cmp.Compare(r.Prefix.Bits(), first.Prefix.Bits())) < 0 {
			first = r
		}
		if !v.ledger.holds(r.Prefix) {
			v.barred = append(v.barred, r.addresses())
		}
	}
	if first == nil {
		return
	}
	v.overlap = first
	if len(v.barred) > 0 {
		v.pool, v.poolErr = Pool(v.network, v.barred...)
	}
	v.refuses = !v.ledger.holds(v.cidr) && (!Begun(v.network) || v.pool.Capacity() == 0)
}

// allowed says whether the administrator allows the overlap. This is possible for Overlay
// Networks, whose packets stay among their pods, but never for Networks of a CNI plugin.
func allowed(n *v1.Network, cidr netip.Prefix, within []netip.Prefix) bool {
	return (n.Spec.Attachment == nil || n.Spec.Attachment.Type != v1.AttachmentCNI) && slices.ContainsFunc(within, func(p netip.Prefix) bool {
		return p.Bits() <= cidr.Bits() && p.Contains(cidr.Addr())
	})
}

// holds says whether the AddressBlocks of the Network had an entry of the prefix, in any
// state.
func (l *ledger) holds(prefix netip.Prefix) bool {
	return slices.ContainsFunc(l.pages, func(p *page) bool {
		return p.ours && p.prefix.Overlaps(prefix) && slices.ContainsFunc(p.observed, func(e entry) bool { return prefix.Contains(e.addr) })
	})
}

// overlapText is the message for the user of the Network.
func (v *view) overlapText() string {
	if v.refuses {
		return fmt.Sprintf("spec.cidr overlaps %s, which the cluster itself uses: create a Network with another CIDR, or exclude these addresses in spec.exclude", v.overlap)
	}
	return fmt.Sprintf("hands out addresses, but spec.cidr overlaps %s, which the cluster itself uses. The Network hands out addresses of such a range only if pods already hold some of it. "+
		"Exclude these addresses in spec.exclude, or move the pods to a Network with another CIDR", v.overlap)
}
