package spec

import (
	"net/netip"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ordinals"
)

// update is a Pod2 with its pods.
type update struct {
	*Cluster
	p     *v1.Pod2
	pods  []*corev1.Pod                // controlled by the Pod2
	own   []*appsv1.ControllerRevision // controlled by the Pod2
	hash  string                       // of the spec
	ready *metav1.Condition
}

func (c *Cluster) update(p *v1.Pod2) *update {
	u := &update{Cluster: c, p: p, ready: meta.FindStatusCondition(p.Status.Conditions, v1.ConditionReady)}
	for _, pod := range c.Pods {
		if metav1.IsControlledBy(pod, p) {
			u.pods = append(u.pods, pod)
		}
	}
	for _, r := range c.Revisions {
		if metav1.IsControlledBy(r, p) && r.DeletionTimestamp == nil {
			u.own = append(u.own, r)
		}
	}
	if r := named(c.Revisions, p.Status.UpdateRevision); r != nil {
		u.hash = r.Labels[v1.PodTemplateHashLabel]
	}
	return u
}

func (u *update) reason() string {
	if u.ready == nil {
		return ""
	}
	return u.ready.Reason
}

// addressKept says whether an address that the spec gives to this replica is bound to
// another pod, or kept for one. With the strategy Recreate, all replicas wait for such an
// address.
func (u *update) addressKept(pod *corev1.Pod) bool {
	ordinal, _ := ordinals.Parse(u.p.Name, pod.Name)
	at := int(ordinal - startOf(u.p))
	us := v1.AddressOwner{Kind: "Pod2", Name: u.p.Name}
	for _, n := range u.p.Spec.Networks {
		for i, address := range n.Addresses {
			kept := slices.ContainsFunc(u.blocksOf(n.Name), func(b *v1.AddressBlock) bool {
				return slices.ContainsFunc(b.Spec.Entries, func(e v1.AddressEntry) bool {
					return e.Address == string(address) && (e.Pod != pod.Name || e.Owner != us)
				})
			})
			if kept && (i == at || u.p.Spec.UpdateStrategy.Type == v1.Recreate) {
				return true
			}
		}
	}
	return false
}

// place returns the place of the replica with this name, -1 if it has none. surges says
// whether the name is that of a replica or of a possible surge replica.
func (u *update) place(name string) (place int, surges bool) {
	ordinal, named := ordinals.Parse(u.p.Name, name)
	place, placed := Ordinals(u.p).Place(ordinal)
	switch count := Ordinals(u.p).Count(); {
	case !named || !placed:
		return -1, false
	case place >= count:
		return -1, place < count+MaxSurge(u.p)
	}
	return place, true
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// updated says whether a pod is of the revision of the spec, and requests the addresses
// that the spec gives to its ordinal.
func (u *update) updated(pod *corev1.Pod) bool {
	ordinal, replica := ordinals.Parse(u.p.Name, pod.Name)
	if _, placed := Ordinals(u.p).Place(ordinal); replica && placed && pod.Annotations[v1.Pod2RequestAnnotation] != request(u.p, ordinal) {
		return false
	}
	return pod.Labels[v1.PodTemplateHashLabel] == u.hash
}

// request is the annotation that a replica must have, with the addresses for its place.
// Reserving an ordinal moves no address to another ordinal.
func request(p *v1.Pod2, ordinal int32) string {
	if len(p.Spec.Networks) == 0 {
		return p.Spec.Template.Annotations[v1.NetworksAnnotation]
	}
	var all []attachment.Request
	for _, n := range p.Spec.Networks {
		r := attachment.Request{Network: n.Name, Interface: n.Interface}
		if at := int(ordinal - startOf(p)); at < len(n.Addresses) {
			r.Address, _ = netip.ParseAddr(string(n.Addresses[at]))
		}
		all = append(all, r)
	}
	return attachment.FormatRequests(all)
}

func (u *update) available(pod *corev1.Pod) bool {
	return Available(pod, time.Duration(u.p.Spec.MinReadySeconds)*time.Second, u.Now)
}

func (u *update) availables() (n int) {
	for _, pod := range u.pods {
		if u.available(pod) {
			n++
		}
	}
	return n
}
