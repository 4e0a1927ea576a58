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

// A pod keeps the prefix length that it was published with. So the network or broadcast
// address of a CIDR stays one for its pods when the CIDR grows. No pod may get such an
// address, and a controller with an old view may still publish pods with an old CIDR. So the
// status of the Network records CIDRs:
//
//	record    by resourceVersion; appends spec.cidr of that version
//	publish   only with a recorded CIDR of this view: the last that has the address
//	bind      never the network or broadcast address of a recorded CIDR
//
// If the spec in a view has a CIDR, the view also has the complete record of smaller
// ones. From that version on, only this CIDR or a larger one is recorded. The network or
// broadcast address of a larger CIDR is never one that this CIDR hands out. So every
// controller that binds knows all that matters, however old its view. It need not record
// anything first.
//
// A Network that is older than this record starts it with the CIDRs that its live pods
// publish.

// recorded returns the recorded CIDRs, smallest first.
func recorded(n *v1.Network) []netip.Prefix {
	cidrs := make([]netip.Prefix, 0, len(n.Status.CIDRs)+1)
	for _, text := range n.Status.CIDRs {
		if cidr, err := ipam.CheckCIDR(text); err == nil {
			cidrs = append(cidrs, cidr)
		}
	}
	return cidrs
}

// publishedWith returns the CIDR whose prefix length a pod with this address publishes. It
// returns false if this view has recorded none.
func publishedWith(n *v1.Network, addr netip.Addr) (netip.Prefix, bool) {
	for _, cidr := range slices.Backward(recorded(n)) {
		if cidr.Contains(addr) {
			return cidr, true
		}
	}
	return netip.Prefix{}, false
}

// toRecord returns the desired record. A spec that never handed out an address is not
// recorded, so its gateway can be corrected.
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

// mostCIDRs is the limit in the schema. A CIDR that only grows stays below it.
const mostCIDRs = 128

// shrunk says whether a CIDR lacks addresses that were handed out. The API server refuses
// such a change, unless another client wrote the status.
func shrunk(cidr netip.Prefix, cidrs []netip.Prefix) bool {
	if len(cidrs) == 0 {
		return false
	}
	last := cidrs[len(cidrs)-1]
	return last.Bits() < cidr.Bits() || !cidr.Contains(last.Addr())
}

// recordFirst returns the status to write before any bind, or nil if none is needed. A
// gateway that was refused could be corrected until now. Once the CIDR is recorded it
// cannot, so no pod is bound to an address that becomes the gateway. A Network that is
// older than the record looks the same. The counts follow later, when they are true.
func (v *view) recordFirst() *v1.NetworkStatus {
	if v.network == nil || len(v.network.Status.CIDRs) > 0 || len(v.cidrs) == 0 || v.network.Status.ObservedGeneration == 0 {
		return nil
	}
	status := v.network.Status.DeepCopy()
	status.CIDRs, status.Gateway = texts(v.cidrs), gatewayText(v.network)
	return status
}

func texts(cidrs []netip.Prefix) []string {
	var all []string
	for _, cidr := range cidrs {
		all = append(all, cidr.String())
	}
	return all
}

// smaller returns, by pod name, the prefixes smaller than the CIDR that live pods publish.
// Those of settled entries come from Known, the others from the State.
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
	for name := range v.published { // the order does not matter: each entry is independent
		if pod := v.pods[name]; !attachment.Over(pod) {
			note(name, attachment.Published(pod)[v.name].Address)
		}
	}
	return found
}

// outdated returns, in name order, the pods that must be recreated to get the route to the
// new addresses of the CIDR. In an Overlay Network pod2-agent adds this route.
func (v *view) outdated() []string {
	if len(v.cidrs) < 2 || !ofCNI(v.network) {
		return nil
	}
	return slices.Sorted(maps.Keys(v.smaller()))
}

func ofCNI(n *v1.Network) bool {
	return n.Spec.Attachment != nil && n.Spec.Attachment.Type == v1.AttachmentCNI
}

// grown returns the condition about pods that run with a smaller CIDR. It returns false if
// there never were such pods.
func (v *view) grown() (metav1.Condition, bool) {
	c := metav1.Condition{Type: v1.ConditionGrown}
	pods := v.outdated()
	if len(pods) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonPodsOutdated
		c.Message = fmt.Sprintf("these pods run with an earlier, smaller CIDR and may not reach all of %s; recreate them: %s", v.cidr, names(pods))
		return c, true
	}
	c.Status, c.Reason = metav1.ConditionTrue, ReasonPodsCurrent
	c.Message = "every pod can reach all of " + v.cidr.String()
	return c, meta.FindStatusCondition(v.network.Status.Conditions, v1.ConditionGrown) != nil
}

// gatewayError says why the declared gateway is invalid. A gateway in force stays valid: the
// pods of a Network that is older than this check have it in their routes.
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
