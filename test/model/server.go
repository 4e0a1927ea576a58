package model

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/spec"
)

// begins is the time at which every search begins; it only passes in ticks.
var begins = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func (m *machine) now(s *state) time.Time { return m.at(s.ticks) }

func (m *machine) at(ticks uint8) time.Time {
	return begins.Add(time.Duration(ticks) * m.config.Tick)
}

// serve carries out a call on the state, as an API server would.
func (m *machine) serve(s *state, c *call) answer {
	_, old := s.find(c.kind, c.name)
	switch c.verb {
	case "get":
		if old == nil {
			return answer{err: notFound}
		}
		return answer{objects: []*object{old}}
	case "list":
		selector, err := labels.Parse(c.selector)
		if err != nil {
			panic(err)
		}
		objects := slices.DeleteFunc(slices.Clone(s.server[c.kind]), func(o *object) bool {
			return !selector.Matches(labels.Set(o.value.GetLabels()))
		})
		return answer{objects: objects}
	case "create":
		if old != nil {
			return answer{err: alreadyExists}
		}
		return m.once(s, c, nil, func() answer { return m.created(s, c.kind, decoded(c.kind, c.body)) })
	}
	if old == nil {
		return answer{err: notFound}
	}
	switch c.verb {
	case "patch":
		switch {
		case c.bodyUID != "" && c.bodyUID != string(old.value.GetUID()):
			return answer{err: otherUID}
		case c.bodyVersion != "" && c.bodyVersion != old.value.GetResourceVersion():
			return answer{err: conflict}
		}
		return m.once(s, c, old, func() answer { return m.patched(s, old, c) })
	case "delete":
		if c.uid != "" && c.uid != string(old.value.GetUID()) || c.version != "" && c.version != old.value.GetResourceVersion() {
			return answer{err: conflict}
		}
		m.deleted(s, old)
		return answer{}
	}
	panic("no verb " + c.verb)
}

func decoded(k Kind, body []byte) metav1.Object {
	value := newValue(k)
	if err := json.Unmarshal(body, value); err != nil {
		panic(err)
	}
	return value
}

func (m *machine) created(s *state, k Kind, value metav1.Object) answer {
	s.uids++
	value.SetUID(uidText(s.uids))
	value.SetCreationTimestamp(metav1.NewTime(m.now(s)))
	value.SetGeneration(1)
	value.SetNamespace(namespace)
	switch value := value.(type) {
	case *v1.Network:
		value.Status = v1.NetworkStatus{}
	case *v1.Pod2:
		value.Status = v1.Pod2Status{}
	case *corev1.Pod:
		value.Status.Phase = corev1.PodPending
	}
	return m.stored(s, k, value)
}

// stored gives a value its resourceVersion. One that is being deleted goes when its
// last finalizer has gone.
func (m *machine) stored(s *state, k Kind, value metav1.Object) answer {
	value.SetResourceVersion(versionText(s.nextVersion(k)))
	o := m.objects.of(k, value)
	m.keepOrRemove(s, o)
	return answer{objects: []*object{o}}
}

func (m *machine) keepOrRemove(s *state, o *object) {
	if o.kind != Pods && o.value.GetDeletionTimestamp() != nil && len(o.value.GetFinalizers()) == 0 {
		s.remove(o)
		m.gone(s, o)
	} else {
		s.put(o)
	}
}

// clone of a value, to be changed.
func clone[T metav1.Object](o *object) T {
	switch value := o.value.(type) {
	case *v1.Network:
		return any(value.DeepCopy()).(T)
	case *v1.AddressBlock:
		return any(value.DeepCopy()).(T)
	case *corev1.Pod:
		return any(value.DeepCopy()).(T)
	case *v1.Pod2:
		return any(value.DeepCopy()).(T)
	}
	return any(decoded(o.kind, encoded(o.value))).(T)
}

// once computes what a write makes of an object, and knows it the next time.
func (m *machine) once(s *state, c *call, old *object, write func() answer) answer {
	k := writeOf{c, old, s.last[c.kind], s.uids, s.ticks}
	if a, known := m.writes[k]; known {
		if a.err == none && a.objects[0] != old {
			o := a.objects[0]
			s.last[c.kind] = o.version
			s.uids = max(s.uids, o.uid)
			m.keepOrRemove(s, o)
		}
		return a
	}
	a := write()
	m.writes[k] = a
	return a
}

// writeOf is all that the answer to a write depends on.
type writeOf struct {
	call          *call
	old           *object
	version, uids uint16
	ticks         uint8
}

// replaced stores what a patch makes of an object.
func (m *machine) replaced(s *state, old *object, next metav1.Object, status bool) answer {
	if !mayReplace(old.value, next) {
		return answer{err: invalid}
	}
	if status {
		is := clone[metav1.Object](old)
		switch is := is.(type) {
		case *v1.Network:
			is.Status = next.(*v1.Network).Status
		case *v1.Pod2:
			is.Status = next.(*v1.Pod2).Status
		case *corev1.Pod:
			is.Status = next.(*corev1.Pod).Status
		}
		next = is
	} else {
		keepStatus(old.value, next)
	}
	next.SetDeletionTimestamp(old.value.GetDeletionTimestamp())
	next.SetResourceVersion(old.value.GetResourceVersion())
	if equality.Semantic.DeepEqual(old.value, next) {
		return answer{objects: []*object{old}} // no event, and no new resourceVersion
	}
	return m.stored(s, old.kind, next)
}

// mayReplace is what the schemas and the API server refuse.
func mayReplace(old, next metav1.Object) bool {
	if old.GetDeletionTimestamp() != nil {
		for _, f := range next.GetFinalizers() {
			if !slices.Contains(old.GetFinalizers(), f) {
				return false
			}
		}
	}
	if was, ok := old.(*v1.AddressBlock); ok {
		is := next.(*v1.AddressBlock)
		return (!was.Spec.Sealed || is.Spec.Sealed) && (!is.Spec.Sealed || len(is.Spec.Entries) == 0) &&
			was.Spec.CIDR == is.Spec.CIDR && (was.Spec.NetworkUID == is.Spec.NetworkUID || !is.Spec.Sealed && !binds(is))
	}
	return true
}

func binds(block *v1.AddressBlock) bool {
	return slices.ContainsFunc(block.Spec.Entries, func(e v1.AddressEntry) bool { return e.State == v1.AddressBound })
}

// keepStatus: a write to the object does not change its status, and one of its spec
// counts in its generation.
func keepStatus(old, next metav1.Object) {
	generation := old.GetGeneration()
	switch next := next.(type) {
	case *v1.Network:
		was := old.(*v1.Network)
		next.Status = was.Status
		if !equality.Semantic.DeepEqual(was.Spec, next.Spec) {
			generation++
		}
	case *v1.Pod2:
		was := old.(*v1.Pod2)
		next.Status = was.Status
		if !equality.Semantic.DeepEqual(was.Spec, next.Spec) {
			generation++
		}
	case *corev1.Pod:
		next.Status = old.(*corev1.Pod).Status
	}
	next.SetGeneration(generation)
}

func (m *machine) patched(s *state, old *object, c *call) answer {
	text, err := []byte(nil), error(nil)
	if c.patch == types.MergePatchType {
		text, err = jsonpatch.MergePatch(encoded(old.value), c.body)
	} else {
		text, err = strategicpatch.StrategicMergePatch(encoded(old.value), c.body, newValue(c.kind))
	}
	if err != nil {
		panic(err)
	}
	return m.replaced(s, old, decoded(c.kind, text), c.status)
}

// deleted begins a deletion. Without finalizers an object is gone at once, and so
// is a pod that is on no node; one that is terminates first.
func (m *machine) deleted(s *state, old *object) {
	pod, isPod := old.value.(*corev1.Pod)
	waits := len(old.value.GetFinalizers()) > 0
	if isPod {
		waits = m.config.Graceful && len(pod.Spec.SchedulingGates) == 0 && !attachment.Over(pod)
	}
	switch {
	case !waits:
		s.nextVersion(old.kind)
		s.remove(old)
		m.gone(s, old)
	case old.value.GetDeletionTimestamp() == nil:
		next := clone[metav1.Object](old)
		next.SetDeletionTimestamp(ptr.To(metav1.NewTime(m.now(s))))
		m.stored(s, old.kind, next)
	}
}

// gone checks what must not go.
func (m *machine) gone(s *state, o *object) {
	if o.kind == Networks {
		m.complain(spec.InUse(o.value.(*v1.Network), every[*v1.AddressBlock](s, Blocks), every[*corev1.Pod](s, Pods)))
	}
}

func (c *call) trace() string {
	text := c.String()
	if c.kind == Blocks && c.verb == "create" {
		return text + " " + blockText(decoded(Blocks, c.body).(*v1.AddressBlock))
	}
	if c.patch != "" && c.patch != types.JSONPatchType {
		return text + " " + strings.ReplaceAll(string(bytes.TrimSpace(c.body)), `\"`, `'`)
	}
	return text
}
