package spec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// Leaks is S9, checked when nothing more will happen. An AddressBlock of a deleted Network
// exists only while a live pod holds one of its addresses, or if it was restored and its
// Network may still come. No address is bound to a pod that is gone.
func (c *Cluster) Leaks() string {
	for _, b := range c.Blocks {
		n := named(c.Networks, b.Spec.Network)
		if n == nil && ownerless(b) {
			continue
		}
		alive := false
		for _, e := range b.Spec.Entries {
			pod := named(c.Pods, e.Pod)
			alive = alive || pod != nil && pod.UID == e.PodUID && Live(pod)
			if e.State == v1.AddressBound && (pod == nil || pod.UID != e.PodUID) {
				return fmt.Sprintf("S9: %s is bound to %s, which is gone", e.Address, e.Pod)
			}
		}
		if (n == nil || n.UID != b.Spec.NetworkUID) && !alive {
			return fmt.Sprintf("S9: AddressBlock %s remains, but its Network is gone", b.Name)
		}
	}
	return ""
}

// Unrecorded is S8, checked when nothing more will happen: an AddressBlock of the Network
// has an entry for each address that a live pod publishes.
func (c *Cluster) Unrecorded() string {
	for _, pod := range c.Pods {
		for _, h := range Holds(pod) {
			bound := func(e v1.AddressEntry) bool {
				return e.Address == h.Address.String() && e.State == v1.AddressBound && e.PodUID == pod.UID
			}
			if !slices.ContainsFunc(c.blocksOf(h.Network), func(b *v1.AddressBlock) bool { return slices.ContainsFunc(b.Spec.Entries, bound) }) {
				return fmt.Sprintf("S8: pod %s publishes %s of Network %s, and no AddressBlock has an entry for it", pod.Name, h.Address, h.Network)
			}
		}
	}
	return ""
}

// Whole says which part of a Pod2 a user misses, "" for none. Each replica must exist and
// be controlled by the Pod2. It must match the spec, unless a pod has yet to be Ready for
// long enough. If ready is set, each replica must be Ready or terminated.
func (c *Cluster) Whole(p *v1.Pod2, ready bool) string {
	u := c.update(p)
	young := slices.ContainsFunc(u.pods, func(pod *corev1.Pod) bool { return Serves(pod) && !u.available(pod) })
	for place := range Ordinals(p).Count() {
		name := ordinals.Name(p.Name, Ordinals(p).At(place))
		pod := named(c.Pods, name)
		switch {
		case p.DeletionTimestamp != nil:
		case pod == nil:
			return "L1: " + name + " is missing"
		case !metav1.IsControlledBy(pod, p):
			return "L1: " + name + " is not controlled by its Pod2"
		case !u.updated(pod) && !young:
			return "L1: " + name + " has another template"
		case ready && !Serves(pod) && !over(pod):
			return "L1: " + name + " is not Ready"
		}
	}
	return ""
}
