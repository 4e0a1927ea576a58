package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/spec"
)

// checkState checks S1, which must hold in every state.
func (m *machine) checkState(s *state) {
	holders := spec.Holders{}
	for _, o := range s.server[Pods] {
		m.complain(holders.Add(o.name, o.holds()))
	}
	if m.config.Numbered {
		m.checkRecords(s)
	}
}

// holds returns the addresses that a pod may use, computed once.
func (o *object) holds() []spec.Held {
	if !o.read {
		o.read, o.held = true, spec.Holds(o.value.(*corev1.Pod))
	}
	return o.held
}

// write returns the call in the form that the promises use.
func (c *call) write() spec.Write {
	w := spec.Write{Verb: c.verb, Resource: c.kind.String(), Name: c.name, UID: cmp.Or(c.uid, c.bodyUID), ResourceVersion: cmp.Or(c.version, c.bodyVersion)}
	if c.status {
		w.Subresource = "status"
	}
	return w
}

// checkCall checks S7 of a call, before its outcome is known.
func (m *machine) checkCall(next *call) {
	if m.config.Numbered && next.writes() && next.kind != Histories {
		m.complain("the history of addresses decides nothing: " + next.String())
	}
	if next.writes() {
		m.complain(next.write().Unconditional())
	}
}

// checkWrite checks the effect of a call.
func (m *machine) checkWrite(s, next *state, by int, c *call, stored bool) {
	if !stored {
		return
	}
	if c.kind == Blocks {
		m.checkBlock(s, next, by, c.name)
	}
	if c.kind != Pods {
		return
	}
	_, was := s.find(Pods, c.name)
	_, is := next.find(Pods, c.name)
	if c.verb != "create" { // S6 by the server's state: the owner of a pod can change while its UID stays
		m.complain(c.write().NotOurs(was.value.(*corev1.Pod), func(uid types.UID) bool { return m.ours(s, by, uid) }))
	}
	switch {
	case c.verb == "create" && m.config.OneWriter:
		pod := is.value.(*corev1.Pod)
		if specs := m.specs(s, by, pod); len(specs) > 0 {
			m.complain(spec.TooMany(pod, every[*corev1.Pod](next, Pods), spec.Most(specs)))
		}
	case c.verb == "delete" && m.config.OneWriter:
		m.checkDelete(s, by, was.value.(*corev1.Pod))
	case c.verb == "patch" && is != nil && len(is.holds()) > 0:
		m.checkPublished(s, next, is, len(was.holds()) == 0)
	}
}

// True if the key of the controller's sync is a Pod2 with this UID, by the cache.
func (m *machine) ours(s *state, by int, uid types.UID) bool {
	key := m.config.Keys[s.control[by].sync.key]
	return slices.ContainsFunc(s.control[by].cache[Pod2s], func(o *object) bool { return o.name == key.Name && o.value.GetUID() == uid })
}

// checkBlock checks S2 and S8 of a written AddressBlock.
func (m *machine) checkBlock(s, next *state, by int, name string) {
	is, found := find[*v1.AddressBlock](next, Blocks, name)
	if !found {
		return
	}
	was, _ := find[*v1.AddressBlock](s, Blocks, name)
	n, exists := find[*v1.Network](s, Networks, is.Spec.Network)
	pods := every[*corev1.Pod](s, Pods)
	m.complain(spec.BoundForNobody(was, is, n, pods))
	m.complain(spec.OnEdge([]*v1.AddressBlock{is}, pods))
	if exists {
		m.complain(spec.HandedOut(was, is, versions(s, by, n), pods))
	}
}

// checkPublished checks S2 and S3 of a pod that publishes; first says that it did not
// before.
func (m *machine) checkPublished(s, next *state, o *object, first bool) {
	pod := o.value.(*corev1.Pod)
	if first {
		m.complain(spec.OnEdge(every[*v1.AddressBlock](next, Blocks), []*corev1.Pod{pod}))
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	for _, h := range o.holds() {
		if n, found := find[*v1.Network](s, Networks, h.Network); first && found {
			if why := spec.Unusable(n, h.Address.String()); why != "" {
				m.complain(fmt.Sprintf("S2: %s got %s of %s, but the address %s", pod.Name, h.Address, n.Name, why))
			}
		}
		if m.config.Keeps && ref != nil && ref.Kind == "Pod2" { // or just adopted
			m.complain(next.keep(pod, h))
		}
	}
}

// keep checks S3 and records the address of a replica.
func (s *state) keep(pod *corev1.Pod, held spec.Held) string {
	i, known := slices.BinarySearchFunc(s.kept, keptAddress{pod.Name, held.Network, netip.Addr{}}, func(a, b keptAddress) int {
		return cmp.Or(cmp.Compare(a.pod, b.pod), cmp.Compare(a.network, b.network))
	})
	if !known {
		s.kept = slices.Insert(s.kept, i, keptAddress{pod.Name, held.Network, held.Address})
		return ""
	}
	before := s.kept[i].address
	s.kept[i].address = held.Address
	return spec.Moved(pod, held, before)
}

// specs returns the specs of a pod's Pod2: the present one, and the one that the controller
// saw, because it cannot know later changes. It returns none if there is no Pod2.
func (m *machine) specs(s *state, by int, pod *corev1.Pod) []*v1.Pod2 {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "Pod2" {
		return nil
	}
	p, found := find[*v1.Pod2](s, Pod2s, ref.Name)
	if !found || p.UID != ref.UID {
		return nil
	}
	return versions(s, by, p)
}

func versions[T metav1.Object](s *state, by int, value T) []T {
	all := []T{value}
	for _, k := range []Kind{Networks, Pod2s} {
		for _, o := range s.control[by].cache[k] {
			if seen, ok := o.value.(T); ok && o.value.GetUID() == value.GetUID() && o.value.GetResourceVersion() != value.GetResourceVersion() {
				all = append(all, seen)
			}
		}
	}
	return all
}

// checkDelete checks S5. A pod that fails after the controller's view still counts: no
// precondition on the deleted pod can prevent that. A precondition does cover the deleted
// pod itself.
func (m *machine) checkDelete(s *state, by int, pod *corev1.Pod) {
	specs := m.specs(s, by, pod)
	if len(specs) == 0 {
		return
	}
	var others []*corev1.Pod
	for _, o := range slices.Concat(s.server[Pods], s.control[by].cache[Pods]) {
		other := o.value.(*corev1.Pod)
		counted := slices.ContainsFunc(others, func(p *corev1.Pod) bool { return p.UID == other.UID })
		if !counted && spec.Available(other, spec.MinReady(specs), m.now(s)) {
			others = append(others, other)
		}
	}
	m.complain(spec.TooFew(pod, others, specs, m.now(s)))
}

func every[T metav1.Object](s *state, k Kind) []T {
	values := make([]T, 0, len(s.server[k]))
	for _, o := range s.server[k] {
		values = append(values, o.value.(T))
	}
	return values
}

func find[T metav1.Object](s *state, k Kind, name string) (value T, found bool) {
	if _, o := s.find(k, name); o != nil {
		return o.value.(T), true
	}
	return value, false
}

// cluster returns the objects of the API server.
func (m *machine) cluster(s *state) *spec.Cluster {
	return &spec.Cluster{
		Now: m.now(s), Networks: every[*v1.Network](s, Networks), Blocks: every[*v1.AddressBlock](s, Blocks), Pods: every[*corev1.Pod](s, Pods),
		Pod2s: every[*v1.Pod2](s, Pod2s), Revisions: every[*appsv1.ControllerRevision](s, Revisions),
		Histories: every[*v1.AddressHistory](s, Histories),
	}
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
