package spec

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/ordinals"
)

// NetworkDone describes the remaining work for the Network with this name, which need not exist.
//
//   - A Network has the finalizer, and is marked as one that hands out addresses. While it is
//     being deleted, it keeps the finalizer until all its AddressBlocks are sealed.
//   - Each AddressBlock passes blockDone, and no restored AddressBlock remains to be inherited.
//   - Each address that a live pod publishes is bound to that pod, or the pod's condition reports
//     a conflict.
//   - A waiting pod has a condition with the reason, and no address is free for it.
//   - The status counts the entries, and is about the present spec.
func NetworkDone(c *Cluster, name string) string {
	n := named(c.Networks, name)
	for _, b := range c.blocksOf(name) {
		if why := c.blockDone(n, b); why != "" {
			return why
		}
	}
	for _, pod := range c.Pods {
		if why := c.podDone(n, name, pod); why != "" {
			return why
		}
	}
	if n == nil {
		return ""
	}
	return c.networkDone(n)
}

func (c *Cluster) networkDone(n *v1.Network) string {
	ready := meta.FindStatusCondition(n.Status.Conditions, v1.ConditionReady)
	var bound, reserved, resting int64
	sealed := true
	for _, b := range c.blocksOf(n.Name) {
		if b.Spec.NetworkUID != n.UID {
			continue
		}
		sealed = sealed && b.Spec.Sealed
		for _, e := range b.Spec.Entries {
			switch e.State {
			case v1.AddressBound:
				bound++
			case v1.AddressReserved:
				reserved++
			case v1.AddressResting:
				resting++
			}
		}
	}
	exhausted := meta.IsStatusConditionFalse(n.Status.Conditions, v1.ConditionAddressesAvailable)
	switch {
	case n.DeletionTimestamp == nil && !hasFinalizer(n):
		return "the finalizer is missing"
	case n.DeletionTimestamp != nil && hasFinalizer(n) && sealed:
		return "the finalizer remains, but all AddressBlocks are sealed"
	case n.Status.ObservedGeneration != n.Generation || ready == nil || ready.ObservedGeneration != n.Generation:
		return "the status is about an earlier spec"
	case n.Status.Bound != bound || n.Status.Reserved != reserved || n.Status.Resting != resting:
		return fmt.Sprintf("the status counts %d, %d and %d addresses, and the AddressBlocks have %d Bound, %d Reserved and %d Resting",
			n.Status.Bound, n.Status.Reserved, n.Status.Resting, bound, reserved, resting)
	case n.DeletionTimestamp != nil && ready.Status == metav1.ConditionTrue:
		return "the Network is being deleted, but the condition Ready is True"
	case n.DeletionTimestamp == nil && !begun(n) && !awaitsBlocks(n, c.Now) && ready.Reason != "OverlapsCluster":
		return "the Network is not marked as one that hands out addresses"
	case exhausted && !slices.ContainsFunc(c.Pods, func(pod *corev1.Pod) bool { return waitsFor(pod, n.Name) }):
		return "the condition AddressesAvailable is False, but no pod waits for an address"
	}
	return ""
}

// blockDone checks an AddressBlock. Each entry is Bound to a live pod and has its owner, or
// Reserved for a replica whose owner requests the Network, or Resting within its delay. If
// the Network is being deleted, every entry is Bound. The AddressBlock has finalizer and
// owner reference while it has entries, and is removed when it is empty.
func (c *Cluster) blockDone(n *v1.Network, b *v1.AddressBlock) string {
	prefix, err := netip.ParsePrefix(b.Spec.CIDR)
	restored := ownerless(b) && b.DeletionTimestamp == nil && !b.Spec.Sealed
	ours := n != nil && n.UID == b.Spec.NetworkUID
	goes := !ours || n.DeletionTimestamp != nil
	if err != nil || b.Name != ipam.BlockName(b.Spec.Network, prefix) {
		return "" // not an AddressBlock of the controller
	}
	alive := slices.ContainsFunc(b.Spec.Entries, func(e v1.AddressEntry) bool { return e.State == v1.AddressBound && c.holder(e) != nil })
	tombstone := ours && goes && hasFinalizer(n)
	switch empty := len(b.Spec.Entries) == 0; {
	case restored && !empty && n != nil && n.DeletionTimestamp == nil && !begun(n) && !ours && !alive:
		return fmt.Sprintf("AddressBlock %s was restored from a backup, and is not inherited", b.Name)
	case restored && !empty && (n == nil && c.Now.Before(b.CreationTimestamp.Add(time.Hour)) || n != nil && !ours && awaitsBlocks(n, c.Now)):
		return "" // its Network, or other AddressBlocks, may come
	case restored && !empty && !goes:
		return fmt.Sprintf("AddressBlock %s has no owner reference", b.Name)
	case !empty && !hasFinalizer(b) && b.DeletionTimestamp == nil:
		return fmt.Sprintf("AddressBlock %s is in use and lacks the finalizer", b.Name)
	case empty && tombstone && !b.Spec.Sealed:
		return fmt.Sprintf("AddressBlock %s is not sealed, and its Network is being deleted", b.Name)
	case empty && !tombstone && (!b.Spec.Sealed || hasFinalizer(b) || b.DeletionTimestamp == nil):
		return fmt.Sprintf("AddressBlock %s is empty, and is not being deleted", b.Name)
	}
	known := map[netip.Addr]bool{}
	for _, e := range b.Spec.Entries {
		addr, err := netip.ParseAddr(e.Address)
		if err != nil || !prefix.Contains(addr) || known[addr] {
			return fmt.Sprintf("AddressBlock %s has an invalid entry %q", b.Name, e.Address)
		}
		known[addr] = true
		if why := c.entryDone(n, b, e, goes); why != "" {
			return fmt.Sprintf("%s, %s for %s, %s", e.Address, e.State, e.Pod, why)
		}
	}
	return ""
}

func (c *Cluster) entryDone(n *v1.Network, b *v1.AddressBlock, e v1.AddressEntry, goes bool) string {
	pod := c.holder(e)
	switch {
	case e.State == v1.AddressBound && pod == nil:
		return "belongs to a pod that has terminated"
	case e.State == v1.AddressBound:
		if owner := attachment.Owner(pod); owner != (v1.AddressOwner{}) && owner != e.Owner && !goes {
			return fmt.Sprintf("does not have its pod's owner, %s %s", owner.Kind, owner.Name)
		}
	case goes:
		return "is kept, but the Network is being deleted"
	case e.Since.After(c.Now):
		return "has a time in the future"
	case e.State == v1.AddressResting && !c.Now.Before(e.Since.Add(restsFor(n))):
		return "has rested long enough"
	case e.State == v1.AddressReserved && !slices.Contains(c.replicasOf(e.Owner).networks, n.Name) && !c.inherited(b, e):
		return "has no owner that requests the Network"
	case e.State == v1.AddressReserved && c.releaseAsked(n, e):
		return "should have been released on request"
	}
	return ""
}

func (c *Cluster) blocksOf(network string) []*v1.AddressBlock {
	return slices.DeleteFunc(slices.Clone(c.Blocks), func(b *v1.AddressBlock) bool { return b.Spec.Network != network })
}

// holder returns the pod of an entry, nil if it has terminated.
func (c *Cluster) holder(e v1.AddressEntry) *corev1.Pod {
	if pod := named(c.Pods, e.Pod); pod != nil && pod.UID == e.PodUID && !attachment.Over(pod) {
		return pod
	}
	return nil
}

// boundTo says whether an address of the existing Network is bound to a pod. If address is
// "", any address counts. If there are several entries for one address, the first Bound
// entry counts.
func (c *Cluster) boundTo(network, address string, pod *corev1.Pod) bool {
	n := named(c.Networks, network)
	for _, b := range c.blocksOf(network) {
		prefix, err := netip.ParsePrefix(b.Spec.CIDR)
		if err != nil || n == nil || b.Spec.NetworkUID != n.UID {
			continue
		}
		known := map[string]bool{}
		for _, e := range b.Spec.Entries {
			addr, err := netip.ParseAddr(e.Address)
			if err != nil || !prefix.Contains(addr) || e.State != v1.AddressBound || known[e.Address] {
				continue
			}
			if known[e.Address] = true; e.PodUID == pod.UID && (address == "" || e.Address == address) {
				return true
			}
		}
	}
	return false
}

func (c *Cluster) bound(network string, pod *corev1.Pod) bool { return c.boundTo(network, "", pod) }

func hasFinalizer(o metav1.Object) bool { return slices.Contains(o.GetFinalizers(), v1.InUseFinalizer) }

func ownerless(b *v1.AddressBlock) bool { return metav1.GetControllerOfNoCopy(b) == nil }

func begun(n *v1.Network) bool { return n.Annotations[v1.NetworkUIDAnnotation] == string(n.UID) }

// awaitsBlocks says whether a restored Network still waits for the AddressBlocks of its
// backup.
func awaitsBlocks(n *v1.Network, now time.Time) bool {
	return n.Annotations[v1.NetworkUIDAnnotation] != "" && !begun(n) && n.DeletionTimestamp == nil && now.Before(n.CreationTimestamp.Add(time.Minute))
}

func restsFor(n *v1.Network) time.Duration {
	return time.Duration(ptr.Deref(n.Spec.ReuseDelaySeconds, 60)) * time.Second
}

// inherited says whether the entry is kept for an hour after a restore, for any owner.
func (c *Cluster) inherited(b *v1.AddressBlock, e v1.AddressEntry) bool {
	at, err := time.Parse(time.RFC3339, b.Annotations[v1.InheritedAnnotation])
	return err == nil && e.Since.Time.Equal(at) && c.Now.Before(at.Add(time.Hour))
}

// releaseAsked says whether a user asked to release the reservation of exactly this entry.
// The replica must have been scaled down.
func (c *Cluster) releaseAsked(n *v1.Network, e v1.AddressEntry) bool {
	var asked []v1.AddressEntry
	_ = json.Unmarshal([]byte(n.Annotations[v1.ReleaseAnnotation]), &asked)
	ordinal, ok := ordinals.Parse(e.Owner.Name, e.Pod)
	owner := c.replicasOf(e.Owner)
	pod := named(c.Pods, e.Pod)
	asked = slices.DeleteFunc(asked, func(a v1.AddressEntry) bool { return a.Address != e.Address })
	if len(asked) == 0 || pod != nil && !attachment.Over(pod) || !slices.Contains(owner.networks, n.Name) || ok && owner.ordinals.Has(ordinal) {
		return false
	}
	last := asked[len(asked)-1] // if several name one address
	same := last.Since.Equal(&e.Since)
	last.Since = e.Since
	return same && last == e
}

// replicas are the ordinals of an owner that keeps stable names, and the Networks of its
// pods.
type replicas struct {
	ordinals ordinals.Range
	networks []string
}

func (c *Cluster) replicasOf(owner v1.AddressOwner) replicas {
	if p := named(c.Pod2s, owner.Name); owner.Kind == "Pod2" && p != nil {
		return replicas{Ordinals(p), networksOf(p)}
	}
	if set := named(c.StatefulSets, owner.Name); owner.Kind == "StatefulSet" && set != nil {
		start := int32(0)
		if set.Spec.Ordinals != nil {
			start = set.Spec.Ordinals.Start
		}
		return replicas{ordinals.New(start, ptr.Deref(set.Spec.Replicas, 1), nil), attachment.RequestedNetworks(set.Spec.Template.Annotations)}
	}
	return replicas{}
}

// networksOf returns the names of the Networks that the replicas of a Pod2 request.
func networksOf(p *v1.Pod2) []string {
	if len(p.Spec.Networks) == 0 {
		return attachment.RequestedNetworks(p.Spec.Template.Annotations)
	}
	var names []string
	for _, n := range p.Spec.Networks {
		names = append(names, n.Name)
	}
	return names
}
