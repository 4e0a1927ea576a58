package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
)

// ReasonOverlapsCluster is of the condition Ready, False before the first bind of the
// Network and True from then on.
const ReasonOverlapsCluster = "OverlapsCluster"

// ClusterRange is addresses that the cluster uses itself.
type ClusterRange struct {
	Prefix netip.Prefix
	// Of tells people whose they are, such as "ServiceCIDR kubernetes".
	Of string
}

func (r ClusterRange) String() string { return fmt.Sprintf("%s (%s)", r.Of, r.Prefix) }

// addresses of the range.
func (r ClusterRange) addresses() ipam.Range {
	return ipam.Range{First: r.Prefix.Masked().Addr(), Last: ipam.LastOf(r.Prefix)}
}

// Overlaps says whether a Network may hand out an address of the range, whatever holds
// it back now: the Network's CIDR has one.
func (r ClusterRange) Overlaps(n *v1.Network) bool {
	cidr, err := ipam.CheckCIDR(n.Spec.CIDR)
	return err == nil && cidr.Overlaps(r.Prefix)
}

// avoid keeps the Network off what the cluster uses. Of each range that has an address
// which the Network would hand out:
//
//	the Network has never bound an         it serves nobody
//	address, or there is no other
//	it holds none of this range            it hands out none of it
//	it holds one of this range             it goes on, and says so: the range came later
//	                                       than the Network, or Pod2 learned of it later
//
// The second row is for a Network that grows, or whose spec.exclude shrinks, over a
// range of the cluster after its first bind.
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

// allowed says whether the administrator allows the overlap: of Overlays, whose packets
// stay among their pods, and never of a CNI plugin's wire.
func allowed(n *v1.Network, cidr netip.Prefix, within []netip.Prefix) bool {
	return (n.Spec.Attachment == nil || n.Spec.Attachment.Type != v1.AttachmentCNI) && slices.ContainsFunc(within, func(p netip.Prefix) bool {
		return p.Bits() <= cidr.Bits() && p.Contains(cidr.Addr())
	})
}

// holds says whether an address of the prefix was observed in the ledger of the
// Network, in whatever state.
func (l *ledger) holds(prefix netip.Prefix) bool {
	return slices.ContainsFunc(l.pages, func(p *page) bool {
		return p.ours && p.prefix.Overlaps(prefix) && slices.ContainsFunc(p.observed, func(e entry) bool { return prefix.Contains(e.addr) })
	})
}

// overlapText is what the user of the Network is told.
func (v *view) overlapText() string {
	if v.refuses {
		return fmt.Sprintf("spec.cidr overlaps %s, which the cluster uses itself: create a Network with another CIDR, or exclude these addresses in spec.exclude", v.overlap)
	}
	return fmt.Sprintf("hands out addresses, but spec.cidr overlaps %s, which the cluster uses itself: of such a range, none is handed out unless pods hold some already; "+
		"exclude these addresses in spec.exclude, or move the pods to a Network with another CIDR", v.overlap)
}
