package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
)

// live pods can use an address.
func live(pod *corev1.Pod) bool { return !attachment.Gated(pod) && !attachment.Over(pod) }

// checkState says what must not be in any state.
func (m *machine) checkState(s *state) {
	// S1
	holders := map[holder]string{}
	for _, o := range s.server[Pods] {
		pod := o.value.(*corev1.Pod)
		if !live(pod) {
			continue
		}
		for _, h := range o.publishes() {
			if other, taken := holders[h]; taken {
				m.complain(fmt.Sprintf("S1: %s and %s both publish %s of Network %s", other, pod.Name, h.address, h.network))
			}
			holders[h] = pod.Name
		}
	}
}

type holder struct{ network, address string }

// publishes are the addresses that a pod publishes, read once.
func (o *object) publishes() []holder {
	if o.published == nil {
		o.published = []holder{}
		for name, a := range attachment.Published(o.value.(*corev1.Pod)) {
			o.published = append(o.published, holder{name, a.Address.Addr().String()})
		}
	}
	return o.published
}

// checkCall says what is wrong with a call, whatever comes of it.
func (m *machine) checkCall(next *call) {
	// S7
	switch {
	case next.verb == "delete" && next.uid == "":
		m.complain("S7: a deletion without UID: " + next.String())
	case next.verb == "patch" && next.bodyUID == "":
		m.complain("S7: a patch without UID: " + next.String())
	case next.verb == "patch" && next.bodyVersion == "" && (next.kind != Pods || !next.status):
		m.complain("S7: a patch without resourceVersion: " + next.String())
	}
}

// S6, as the server had it when the deletion was carried out: whose a pod is can
// change while its UID stays.
func (m *machine) checkOurs(s *state, by int, pod *corev1.Pod) {
	ref, key := metav1.GetControllerOfNoCopy(pod), m.config.Keys[s.control[by].sync.key]
	for _, p := range s.control[by].cache[Pod2s] {
		if ref != nil && p.name == key.Name && p.value.GetUID() == ref.UID {
			return
		}
	}
	m.complain(fmt.Sprintf("S6: %s is deleted, which is not of %s", pod.Name, key))
}

// checkWrite says what is wrong with what a call did.
func (m *machine) checkWrite(s, next *state, by int, c *call, stored bool) {
	if !stored {
		return
	}
	if c.kind == Blocks {
		m.complain(boundForNobody(s, next, c.name))
		m.complain(boundToAnEdge(s, next, c.name))
	}
	if c.kind != Pods {
		return
	}
	_, was := s.find(Pods, c.name)
	_, is := next.find(Pods, c.name)
	if c.verb == "delete" {
		m.checkOurs(s, by, was.value.(*corev1.Pod))
	}
	switch {
	case c.verb == "create" && m.config.OneWriter:
		m.checkCreate(s, by, is.value.(*corev1.Pod))
	case c.verb == "delete" && m.config.OneWriter:
		m.checkDelete(s, by, was.value.(*corev1.Pod))
	case c.verb == "patch" && is != nil && live(is.value.(*corev1.Pod)):
		pod := is.value.(*corev1.Pod)
		published := !live(was.value.(*corev1.Pod))
		for _, h := range is.publishes() {
			if n, found := find[*v1.Network](s, Networks, h.network); published && found {
				m.checkHandedOut(n, pod.Name, netip.MustParseAddr(h.address))
			}
			if published {
				m.complain(edgeOfAnother(next, h.network, pod))
			}
			if m.config.Keeps && attachment.Owner(pod).Kind == "Pod2" { // or adopted just now
				next.keep(m, pod.Name, h.network+" "+h.address)
			}
		}
	}
}

// boundForNobody: S8, an entry of a Network that is gone is never made.
func boundForNobody(s, next *state, name string) string {
	was, _ := find[*v1.AddressBlock](s, Blocks, name)
	is, found := find[*v1.AddressBlock](next, Blocks, name)
	if !found {
		return ""
	}
	if n, exists := find[*v1.Network](s, Networks, is.Spec.Network); exists && n.UID == is.Spec.NetworkUID {
		return ""
	}
	for _, e := range is.Spec.Entries {
		if pod, exists := find[*corev1.Pod](s, Pods, e.Pod); !exists || pod.UID != e.PodUID || attachment.Over(pod) {
			continue
		}
		if e.State == v1.AddressBound && (was == nil || !slices.Contains(was.Spec.Entries, e)) {
			return fmt.Sprintf("S8: %s is bound to %s in a block of a Network that is gone", e.Address, e.Pod)
		}
	}
	return ""
}

// S2
func (m *machine) checkHandedOut(n *v1.Network, pod string, addr netip.Addr) {
	pool, err := network.Pool(n)
	if err != nil {
		return
	}
	if why := pool.Refusal(addr); why != "" {
		m.complain(fmt.Sprintf("S2: %s got %s of %s, which %s", pod, addr, n.Name, why))
	}
}

// S3: keep notes the address of a replica, and complains of another than it had.
func (s *state) keep(m *machine, pod, address string) {
	for i, k := range s.kept {
		if k.pod == pod {
			if k.address != address {
				m.complain(fmt.Sprintf("S3: %s had %s and has got %s", pod, k.address, address))
				s.kept[i].address = address
			}
			return
		}
	}
	s.kept = append(s.kept, keptAddress{pod, address})
	slices.SortFunc(s.kept, func(a, b keptAddress) int { return strings.Compare(a.pod, b.pod) })
}

func owner(s *state, pod *corev1.Pod) *v1.Pod2 {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "Pod2" {
		return nil
	}
	if _, o := s.find(Pod2s, ref.Name); o != nil && o.value.GetUID() == ref.UID {
		return o.value.(*v1.Pod2)
	}
	return nil
}

// seen is a Pod2 as a controller saw it: what is asked for meanwhile, it cannot know.
func (m *machine) seen(s *state, by int, p *v1.Pod2) *v1.Pod2 {
	for _, o := range s.control[by].cache[Pod2s] {
		if o.value.GetUID() == p.UID {
			return o.value.(*v1.Pod2)
		}
	}
	return p
}

func replicas(p *v1.Pod2) int { return int(ptr.Deref(p.Spec.Replicas, 1)) }

// S4
func (m *machine) checkCreate(s *state, by int, pod *corev1.Pod) {
	p := owner(s, pod)
	if p == nil {
		return
	}
	n := 0
	for _, o := range s.server[Pods] {
		if ref := metav1.GetControllerOfNoCopy(o.value); ref != nil && ref.UID == p.UID {
			n++
		}
	}
	if most := max(replicas(p), replicas(m.seen(s, by, p))) + m.config.Surge; n >= most {
		m.complain(fmt.Sprintf("S4: %s is created while there are %d pods, and at most %d are to be", pod.Name, n, most))
	}
}

// S5. What fails after a controller looked, no precondition on the pod that it deletes
// can tell it: that one still counts. That the pod itself serves, it can. One that is Ready
// and too young to be available goes only while one more of the others is available.
func (m *machine) checkDelete(s *state, by int, pod *corev1.Pod) {
	p := owner(s, pod)
	if p == nil || !podReady(pod) || pod.DeletionTimestamp != nil {
		return
	}
	others := map[types.UID]bool{}
	for _, o := range slices.Concat(s.server[Pods], s.control[by].cache[Pods]) {
		other := o.value.(*corev1.Pod)
		if ref := metav1.GetControllerOfNoCopy(other); ref != nil && ref.UID == p.UID && m.available(s, p, other) && other.DeletionTimestamp == nil && other.UID != pod.UID {
			others[other.UID] = true
		}
	}
	least := min(replicas(p), replicas(m.seen(s, by, p))) - m.config.Unavailable
	if !m.available(s, p, pod) {
		least++
	}
	if len(others) < least {
		m.complain(fmt.Sprintf("S5: %s is deleted while %d others are available, and at least %d are to be", pod.Name, len(others), least))
	}
}

// available: Ready for minReadySeconds.
func (m *machine) available(s *state, p *v1.Pod2, pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		enough := time.Duration(p.Spec.MinReadySeconds) * time.Second
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && m.now(s).Sub(c.LastTransitionTime.Time) >= enough
	})
}

// S8: nothing of a Network that goes for good is in use.
func networkInUse(s *state, n *v1.Network) string {
	for _, o := range s.server[Blocks] {
		block := o.value.(*v1.AddressBlock)
		if block.Spec.NetworkUID != n.UID {
			continue
		}
		for _, e := range block.Spec.Entries {
			if pod, found := find[*corev1.Pod](s, Pods, e.Pod); found && pod.UID == e.PodUID && !attachment.Over(pod) {
				return fmt.Sprintf("S8: Network %s goes, and %s of it is bound to %s", n.Name, e.Address, e.Pod)
			}
		}
	}
	return ""
}

func blockText(b *v1.AddressBlock) string {
	text := fmt.Sprintf("of %s", b.Spec.NetworkUID)
	if b.Spec.Sealed {
		text += " sealed"
	}
	if len(b.Finalizers) == 0 {
		text += " without finalizer"
	}
	if b.DeletionTimestamp != nil {
		text += " terminating"
	}
	for _, e := range b.Spec.Entries {
		text += fmt.Sprintf(" [%s %s %s %s %s/%s]", e.Address, e.State, e.Pod, e.PodUID, e.Owner.Kind, e.Owner.Name)
	}
	return text
}
