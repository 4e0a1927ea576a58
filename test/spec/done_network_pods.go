package spec

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
)

// podDone checks one pod and one Network. n is nil if the Network does not exist.
func (c *Cluster) podDone(n *v1.Network, name string, pod *corev1.Pod) string {
	told := slices.IndexFunc(pod.Status.Conditions, func(p corev1.PodCondition) bool { return p.Type == v1.ConditionAddressesBound })
	if a, ok := attachment.Published(pod)[name]; ok && Live(pod) && n != nil && c.recordable(n, a.Address.Addr()) {
		conflict := told >= 0 && pod.Status.Conditions[told].Reason == "AddressConflict"
		if !conflict && !c.boundTo(name, a.Address.Addr().String(), pod) {
			return fmt.Sprintf("address %s, which pod %s publishes, is not bound to the pod", a.Address.Addr(), pod.Name)
		}
	}
	if !waitsFor(pod, name) || c.bound(name, pod) {
		return ""
	}
	others, turn := false, true // another Network may have to report it; the earlier Networks in name order have bound it
	requests, _ := attachment.Requests(pod)
	for _, r := range requests {
		others = others || r.Network != name && !c.bound(r.Network, pod)
		turn = turn && (r.Network >= name || c.bound(r.Network, pod))
	}
	if told < 0 && !others {
		return fmt.Sprintf("pod %s waits, and has no condition with the reason", pod.Name)
	}
	if turn && c.WaitsInVain(pod) {
		return fmt.Sprintf("pod %s waits, and each Network that it requests has a free address for it", pod.Name)
	}
	return ""
}

// WaitsInVain says whether a pod waits although all Networks that it requests can serve it:
// each has an address that no pod holds and that is not kept for another pod.
func (c *Cluster) WaitsInVain(pod *corev1.Pod) bool {
	requests, err := attachment.Requests(pod)
	if err != nil || len(requests) == 0 || !waitsFor(pod, requests[0].Network) {
		return false
	}
	for _, r := range requests {
		n := named(c.Networks, r.Network)
		if n == nil || n.DeletionTimestamp != nil || awaitsBlocks(n, c.Now) || c.inherits(n) || n.Status.ObservedGeneration != n.Generation ||
			!meta.IsStatusConditionTrue(n.Status.Conditions, v1.ConditionReady) {
			return false
		}
		if wanted := cmp.Or(r.Address, attachment.Published(pod)[r.Network].Address.Addr()); !c.bound(r.Network, pod) && !c.hasFree(n, pod, wanted) {
			return false
		}
	}
	return true
}

// inherits says whether the Network is new and finds restored AddressBlocks of an earlier
// Network with its name. Until it takes them over, it serves only pods whose address they
// keep.
func (c *Cluster) inherits(n *v1.Network) bool {
	return !begun(n) && slices.ContainsFunc(c.blocksOf(n.Name), func(b *v1.AddressBlock) bool {
		return b.Spec.NetworkUID != n.UID && ownerless(b) && !b.Spec.Sealed && b.DeletionTimestamp == nil && len(b.Spec.Entries) > 0
	})
}

// hasFree says whether the Network has an address for a pod: the wanted one, if there is
// one. Pods that wait for several Networks may each have been promised one free address.
func (c *Cluster) hasFree(n *v1.Network, pod *corev1.Pod, wanted netip.Addr) bool {
	taken, full := map[netip.Addr]bool{}, []netip.Prefix{}
	for _, b := range c.blocksOf(n.Name) {
		if prefix, err := netip.ParsePrefix(b.Spec.CIDR); err == nil && (b.Spec.NetworkUID != n.UID || b.Spec.Sealed || ownerless(b)) {
			full = append(full, prefix)
		}
		for _, e := range b.Spec.Entries {
			if addr, err := netip.ParseAddr(e.Address); err == nil && (e.Pod != pod.Name || e.Owner != attachment.Owner(pod)) {
				taken[addr] = true
			}
		}
	}
	promised := 0
	for _, other := range c.Pods {
		if requests, _ := attachment.Requests(other); other.Name != pod.Name && len(requests) > 1 && waitsFor(other, n.Name) {
			promised++
		}
	}
	cidr, err := netip.ParsePrefix(n.Spec.CIDR)
	for addr := cidr.Masked().Addr(); err == nil && cidr.Contains(addr); addr = addr.Next() {
		free := !taken[addr] && Unusable(n, addr.String()) == "" && !slices.ContainsFunc(full, func(p netip.Prefix) bool { return p.Contains(addr) })
		switch {
		case !free, wanted.IsValid() && addr != wanted, !wanted.IsValid() && within(n.Spec.OnRequest, addr):
		case promised == 0:
			return true
		default:
			promised--
		}
	}
	return false
}

// recordable says whether the controller could write an entry for the address. It writes
// none into an AddressBlock that is sealed, restored or of another Network, and none once
// the Network is being removed.
func (c *Cluster) recordable(n *v1.Network, addr netip.Addr) bool {
	cidr, err := ipam.CheckCIDR(n.Spec.CIDR)
	if err != nil || !cidr.Contains(addr) {
		return false
	}
	for _, b := range c.blocksOf(n.Name) {
		if prefix, err := netip.ParsePrefix(b.Spec.CIDR); err == nil && prefix.Contains(addr) {
			return b.Spec.NetworkUID == n.UID && !b.Spec.Sealed && !ownerless(b)
		}
	}
	return n.DeletionTimestamp == nil || hasFinalizer(n)
}

// waitsFor says whether a pod waits for its address on a Network.
func waitsFor(pod *corev1.Pod, network string) bool {
	requests, err := attachment.Requests(pod)
	_, answered := pod.Annotations[v1.AddressesAnnotation]
	return err == nil && attachment.Gated(pod) && !attachment.Over(pod) && pod.DeletionTimestamp == nil && !pod.Spec.HostNetwork &&
		(!answered || attachment.Published(pod) != nil) &&
		slices.ContainsFunc(requests, func(r attachment.Request) bool { return r.Network == network })
}
