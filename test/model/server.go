package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/spec"
)

// begins is the time at which every search begins. Time passes only in ticks.
var begins = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func (m *machine) now(s *state) time.Time { return m.at(s.ticks) }

func (m *machine) at(ticks uint8) time.Time {
	return begins.Add(time.Duration(ticks) * m.config.Tick)
}

// serve carries out a call on the state like an API server.
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
		return m.once(s, c, old, func() answer { return m.patched(s, old, c) })
	case "delete":
		if err := c.kind.resource().Holds(old.value, c.preconditions()); err != nil {
			return answer{err: failureOf(err)}
		}
		m.deleted(s, old)
		return answer{}
	}
	panic("no verb " + c.verb)
}

// failureOf classifies an error of the API server.
func failureOf(err error) failure {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsConflict(err):
		return conflict
	case apierrors.IsInvalid(err) && errors.As(err, &status) && len(status.Status().Details.Causes) == 0:
		return inapplicable
	case apierrors.IsInvalid(err) && status.Status().Details.Causes[0].Field == "metadata.uid":
		return otherUID
	case apierrors.IsInvalid(err):
		return invalid
	}
	panic(err)
}

func decoded(k Kind, body []byte) apiserver.Object {
	value := newValue(k)
	if err := json.Unmarshal(body, value); err != nil {
		panic(err)
	}
	return value
}

func (m *machine) created(s *state, k Kind, value apiserver.Object) answer {
	s.uids++
	value.SetNamespace(namespace)
	apiserver.SetDefaults(value)
	k.resource().Begin(value, uidText(s.uids), metav1.NewTime(m.now(s)))
	return m.stored(s, k, value)
}

// stored gives a value its resourceVersion. An object that is being deleted is removed when
// its last finalizer is.
func (m *machine) stored(s *state, k Kind, value apiserver.Object) answer {
	m.prepare(k, value)
	value.SetResourceVersion(versionText(s.nextVersion(k)))
	o := m.objects.of(k, value)
	m.keepOrRemove(s, o)
	if m.config.Numbered && k == Blocks {
		s.versions = append(slices.Clip(s.versions), o)
	}
	return answer{objects: []*object{o}}
}

// prepare removes differences between states that mean the same: the generation of a kind
// counts writes, and is dropped if nothing reads it. It also schedules pods at once: if
// pods terminate gracefully, a pod without gates gets a node.
func (m *machine) prepare(k Kind, value apiserver.Object) {
	value.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if k != Networks && k != Pod2s && !m.config.Numbered {
		value.SetGeneration(1)
	}
	if pod, ok := value.(*corev1.Pod); ok && m.config.Graceful && len(pod.Spec.SchedulingGates) == 0 {
		pod.Spec.NodeName = "node"
	}
}

func (m *machine) keepOrRemove(s *state, o *object) {
	if apiserver.Gone(o.value) {
		s.remove(o)
		m.gone(s, o)
	} else {
		s.put(o)
	}
}

// clone returns a copy of a value that can be changed.
func clone[T apiserver.Object](o *object) T {
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

// once computes the effect of a write on an object, and remembers it for the next time.
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

// writeOf holds everything that the answer to a write depends on.
type writeOf struct {
	call          *call
	old           *object
	version, uids uint16
	ticks         uint8
}

func (m *machine) patched(s *state, old *object, c *call) answer {
	r, sub := old.kind.resource(), ""
	if c.status {
		sub = "status"
	}
	body, err := apiserver.Patched(string(c.patch), r, encoded(old.value), c.body)
	if err != nil {
		return answer{err: failureOf(err)}
	}
	next, err := r.Updated(sub, old.value, body, false, func(apiserver.Object) {})
	if err != nil {
		return answer{err: failureOf(err)}
	}
	m.prepare(old.kind, next)
	if changed, _ := r.Settle(old.value, next); !changed {
		return answer{objects: []*object{old}} // no event and no new resourceVersion
	}
	return m.stored(s, old.kind, next)
}

// deleted begins a deletion.
func (m *machine) deleted(s *state, old *object) {
	r := old.kind.resource()
	next := r.Deleted(old.value, metav1.DeleteOptions{}, metav1.NewTime(m.now(s)))
	if changed, _ := r.Settle(old.value, next); changed {
		m.stored(s, old.kind, next)
	}
}

// gone checks that the object may be removed.
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
	if c.patch != "" {
		return text + " " + strings.ReplaceAll(string(bytes.TrimSpace(c.body)), `\"`, `'`)
	}
	return text
}
