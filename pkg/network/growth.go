package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
)

// Reasons of the condition Grown.
const (
	ReasonPodsOutdated = "PodsOutdated"
	ReasonPodsCurrent  = "PodsCurrent"
)

// A pod keeps the prefix length that it was published with, so what was the network
// or broadcast address of a CIDR stays that for its pods when the CIDR grows. Nobody
// may get such an address, and a controller with an old view may yet publish pods with
// an old CIDR. So CIDRs are put on record, in the status of the Network:
//
//	record    by resourceVersion, appends spec.cidr of that version
//	publish   only with a CIDR that the view has on record: the last that has the address
//	bind      never an address that is network or broadcast in a CIDR on record
//
// A view whose spec has a CIDR has on record all smaller ones that ever will be: from that
// version on, only this CIDR or a larger one is recorded. And what is network or
// broadcast address of a larger one is none that this one hands out. So whoever binds
// knows all that matters, however old the view, and need not record anything before.
//
// A Network of before this record begins it with what its live pods publish.

// recorded are the CIDRs on record, smallest first.
func recorded(n *v1.Network) []netip.Prefix {
	cidrs := make([]netip.Prefix, 0, len(n.Status.CIDRs)+1)
	for _, text := range n.Status.CIDRs {
		if cidr, err := ipam.CheckCIDR(text); err == nil {
			cidrs = append(cidrs, cidr)
		}
	}
	return cidrs
}

// publishedWith is the CIDR whose prefix length a pod with this address publishes, false
// if this view has none on record.
func publishedWith(n *v1.Network, addr netip.Addr) (netip.Prefix, bool) {
	for _, cidr := range slices.Backward(recorded(n)) {
		if cidr.Contains(addr) {
			return cidr, true
		}
	}
	return netip.Prefix{}, false
}

// toRecord is the record as it shall be. Nothing is recorded of a spec with which no
// address was ever handed out: its gateway can be corrected.
func (v *view) toRecord() []netip.Prefix {
	cidrs := recorded(v.network)
	if !v.cidr.IsValid() || gatewayError(v.network, v.cidr) != nil || shrunk(v.cidr, cidrs) {
		return cidrs
	}
	if len(cidrs) == 0 {
		for _, published := range v.smaller() {
			cidrs = append(cidrs, published.Masked())
		}
		slices.SortFunc(cidrs, func(a, b netip.Prefix) int {
			if a.Bits() != b.Bits() {
				return b.Bits() - a.Bits()
			}
			return a.Addr().Compare(b.Addr())
		})
		cidrs = slices.Compact(cidrs)
		cidrs = cidrs[:min(len(cidrs), mostCIDRs-1)]
	}
	if len(cidrs) == 0 || cidrs[len(cidrs)-1] != v.cidr {
		cidrs = append(cidrs, v.cidr)
	}
	return cidrs
}

// mostCIDRs is what the schema allows. A CIDR that only grows has less than that.
const mostCIDRs = 128

// shrunk says whether a CIDR lacks addresses that were handed out: the API server
// refuses that, unless somebody wrote the status.
func shrunk(cidr netip.Prefix, cidrs []netip.Prefix) bool {
	if len(cidrs) == 0 {
		return false
	}
	last := cidrs[len(cidrs)-1]
	return last.Bits() < cidr.Bits() || !cidr.Contains(last.Addr())
}

// recordFirst is the status to be written before anything is bound, nil for most: a
// gateway that was refused could be corrected until now, and from the record on it cannot,
// so nobody is bound to what becomes the gateway. A Network of before the record looks the
// same. The counts come later, when they are so.
func (v *view) recordFirst() *v1.NetworkStatus {
	if v.network == nil || len(v.network.Status.CIDRs) > 0 || len(v.cidrs) == 0 || v.network.Status.ObservedGeneration == 0 {
		return nil
	}
	status := v.network.Status.DeepCopy()
	status.CIDRs, status.Gateway = texts(v.cidrs), GatewayText(v.network)
	return status
}

func texts(cidrs []netip.Prefix) []string {
	var all []string
	for _, cidr := range cidrs {
		all = append(all, cidr.String())
	}
	return all
}

// smaller are the prefixes smaller than the CIDR that live pods publish, by the names of
// the pods: those of settled entries as they are known, the others as the State has them.
func (v *view) smaller() map[string]netip.Prefix {
	found := map[string]netip.Prefix{}
	note := func(pod string, published netip.Prefix) {
		if published.Bits() > v.cidr.Bits() && v.cidr.Contains(published.Addr()) {
			found[pod] = published
		}
	}
	for _, p := range v.ledger.pages {
		for i := range p.observed {
			bits := p.Bits(i)
			if e := &p.observed[i]; bits > v.cidr.Bits() && p.Settled.Has(i) && v.pods[e.Pod] == nil {
				note(e.Pod, netip.PrefixFrom(e.addr, bits))
			}
		}
	}
	for name := range v.published { // each is noted by itself, so the order is all the same
		if pod := v.pods[name]; !attachment.Over(pod) {
			note(name, attachment.Published(pod)[v.name].Address)
		}
	}
	return found
}

// outdated are the pods, in name order, that nothing but their replacement brings the
// route to what the CIDR grew by. In an Overlay Network pod2-agent does.
func (v *view) outdated() []string {
	if len(v.cidrs) < 2 || v.agent && !ofCNI(v.network) {
		return nil
	}
	return slices.Sorted(maps.Keys(v.smaller()))
}

func ofCNI(n *v1.Network) bool {
	return n.Spec.Attachment != nil && n.Spec.Attachment.Type == v1.AttachmentCNI
}

// grown is the condition about pods that run with a smaller CIDR, false where there never
// were such pods.
func (v *view) grown() (metav1.Condition, bool) {
	c := metav1.Condition{Type: v1.ConditionGrown}
	pods := v.outdated()
	if len(pods) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonPodsOutdated
		c.Message = fmt.Sprintf("these pods run with an earlier, smaller CIDR and may not reach all of %s; recreate them: %s", v.cidr, names(pods))
		return c, true
	}
	c.Status, c.Reason = metav1.ConditionTrue, ReasonPodsCurrent
	c.Message = "no pod must be recreated to reach all of " + v.cidr.String()
	return c, meta.FindStatusCondition(v.network.Status.Conditions, v1.ConditionGrown) != nil
}

// gatewayError says why the declared gateway can be none. One that is in force stays so:
// the pods of a Network of before this check have it in their routes.
func gatewayError(n *v1.Network, cidr netip.Prefix) error {
	if n.Spec.Gateway == "" || n.Status.ObservedGeneration > 0 && n.Status.Gateway == n.Spec.Gateway {
		return nil
	}
	gateway, err := netip.ParseAddr(n.Spec.Gateway)
	if err != nil {
		return fmt.Errorf("%q does not parse: %w", n.Spec.Gateway, err)
	}
	if why := ipam.NoHost(cidr, gateway); why != "" {
		return fmt.Errorf("%s %s; write an address that a host in %s can have", gateway, why, cidr)
	}
	return nil
}
