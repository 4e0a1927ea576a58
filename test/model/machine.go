package model

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Controller is the real controller, between the caches and clients of a Stage.
type Controller interface {
	// Sync syncs a key once.
	Sync(ctx context.Context, key Key) error
	// Remember replaces the controller's memory; Memory returns it.
	Remember(Memory)
	Memory() Memory
	// Watched tells it about AddressBlocks, like the events of a watch.
	Watched([]*v1.AddressBlock)
}

// machine computes the states that follow a state.
type machine struct {
	config     *Config
	controller Controller
	stage      *Stage
	clock      *clocktesting.FakePassiveClock
	objects    *objects
	histories  histories
	writes     map[writeOf]answer
	syncs      map[string]*outcome
	scratch    numbering
	buffer     []byte
	key        []byte
	complaints []string
}

// outcome is the outcome of a sync, as far as there are answers to its calls.
type outcome struct {
	next   *call // the next call, nil if the sync has ended
	memory memory
}

// New creates the real controller.
type New func(stage *Stage, clock *clocktesting.FakePassiveClock) Controller

func newMachine(c *Config, create New, slim func(metav1.Object) metav1.Object) *machine {
	m := &machine{
		config: c, stage: newStage(), clock: clocktesting.NewFakePassiveClock(begins),
		objects: newObjects(slim), histories: histories{}, writes: map[writeOf]answer{}, syncs: map[string]*outcome{},
	}
	m.controller = create(m.stage, m.clock)
	return m
}

func (m *machine) complain(why string) {
	if why != "" {
		m.complaints = append(m.complaints, why)
	}
}

func (m *machine) watched(o *object) bool {
	return o.kind != Pods || o.value.GetLabels()[managedLabel] == "true"
}

// reads returns the caches that a sync of a key depends on.
func reads(k Key) []Kind {
	switch k.Kind {
	case "Network":
		return []Kind{Networks, Blocks, Pods, Pod2s}
	case "Pod":
		return []Kind{Networks, Blocks, Pods}
	case "Pod2":
		return []Kind{Networks, Pods, Pod2s, Revisions}
	case "AddressHistory":
		return []Kind{Networks, Blocks, Pods, Histories}
	}
	panic("unknown kind of key " + k.Kind)
}

// run returns the next call of an unfinished sync, or how it ended. It runs the real code
// from the start of the sync. The result depends only on the values in the key of the memo.
func (m *machine) run(ctl *control) *outcome {
	key := m.config.Keys[ctl.sync.key]
	b := append(m.key[:0], ctl.sync.key, ctl.sync.ticks)
	for _, k := range reads(key) {
		b = append(b, byte(len(ctl.cache[k])))
		for _, o := range ctl.cache[k] {
			b = binary.LittleEndian.AppendUint32(b, o.id)
		}
		if !ctl.memory.empty() {
			b = binary.LittleEndian.AppendUint16(b, ctl.at[k])
		}
	}
	b = m.encodeMemory(b, ctl.memory)
	for _, a := range ctl.sync.answers {
		b = append(b, byte(a.err), byte(len(a.objects)))
		for _, o := range a.objects {
			b = binary.LittleEndian.AppendUint32(b, o.id)
		}
	}
	m.key = b
	if known, ok := m.syncs[string(b)]; ok {
		return known
	}
	memo := string(b)
	m.setStage(ctl.sync.ticks, ctl)
	m.controller.Remember(m.remembered(ctl.memory))
	m.stage.client = client{answers: ctl.sync.answers}
	err := m.controller.Sync(context.Background(), key)
	done := &outcome{next: m.stage.client.pending}
	if done.next == nil {
		if m.stage.client.calls != len(ctl.sync.answers) {
			panic(fmt.Sprintf("%s: the sync is not a function of its view and answers: %v", key, err))
		}
		done.memory = m.noticed(m.controller.Memory())
	}
	m.syncs[memo] = done
	return done
}

func (m *machine) setStage(ticks uint8, ctl *control) {
	m.clock.SetTime(m.at(ticks))
	for k := range kinds {
		m.stage.indexers[k].objects, m.stage.indexers[k].at = ctl.cache[k], ctl.at[k]
	}
}

func (m *machine) remembered(mem memory) Memory {
	out := Memory{History: mem.history.known()}
	for _, w := range mem.wrote {
		out.Wrote = append(out.Wrote, Wrote{w.key, w.kind.String(), versionText(w.version)})
	}
	for _, d := range mem.deleted {
		out.Deleted = append(out.Deleted, Deleted{d.key, d.kind.String(), d.path, uidText(d.uid), versionText(d.version)})
	}
	for _, o := range mem.found {
		out.Found = append(out.Found, o.value.(*corev1.Pod))
	}
	for _, o := range mem.over {
		out.Over = append(out.Over, Over{o.key, o.pod, uidText(o.uid)})
	}
	return out
}

func (m *machine) noticed(mem Memory) memory {
	out := memory{history: m.histories.of(mem.History)}
	kindOf := func(resource string) Kind {
		for k := range kinds {
			if k.String() == resource {
				return k
			}
		}
		panic("unknown resource " + resource)
	}
	for _, w := range mem.Wrote {
		out.wrote = append(out.wrote, wrote{w.Key, kindOf(w.Resource), versionNumber(w.Version)})
	}
	for _, d := range mem.Deleted {
		out.deleted = append(out.deleted, deleted{d.Key, kindOf(d.Resource), d.Path, uidNumber(d.UID), versionNumber(d.Version)})
	}
	for _, pod := range mem.Found {
		out.found = append(out.found, m.objects.of(Pods, pod))
	}
	for _, o := range mem.Over {
		out.over = append(out.over, over{o.Key, o.Pod, uidNumber(o.UID)})
	}
	slices.SortFunc(out.wrote, func(a, b wrote) int {
		return cmp.Or(cmp.Compare(a.key.String(), b.key.String()), cmp.Compare(a.kind, b.kind))
	})
	slices.SortFunc(out.deleted, func(a, b deleted) int {
		return cmp.Or(cmp.Compare(a.key.String(), b.key.String()), cmp.Compare(a.kind, b.kind), cmp.Compare(a.path, b.path))
	})
	slices.SortFunc(out.found, func(a, b *object) int { return cmp.Compare(a.name, b.name) })
	return out
}

// initial returns the state in which the search begins.
func (m *machine) initial() *state {
	s := &state{control: make([]control, max(m.config.Controllers, 1))}
	s.left = []uint8{m.config.Crashes, m.config.LostAnswers, m.config.Deaths, m.config.OldViews, m.config.Ticks}
	for _, e := range m.config.Edits {
		s.left = append(s.left, e.Times)
	}
	w := &World{m, s}
	m.config.Setup(w)
	if m.config.Then != nil {
		m.settle(s)
		m.config.Then(w)
	}
	for c := range s.control {
		s.control[c] = control{}
		for k := range kinds {
			s.control[c].cache[k], s.control[c].at[k] = s.shown(k, m.watched), s.last[k]
		}
		m.lists(&s.control[c])
	}
	next, _, _ := m.canonical(s)
	return next
}

// settle lets one controller do its work without disturbance.
func (m *machine) settle(s *state) {
	for range 1000 {
		var next *state
		m.expand(s, func(a action, to *state) {
			if next == nil && !a.fault {
				next = to
			}
		})
		if next == nil {
			return
		}
		canonical, _, _ := m.canonical(next)
		*s = *canonical
	}
	panic("the setup of " + m.config.Name + " does not settle")
}

// Discard is an EventRecorder that drops events, because nothing is decided on them.
type Discard struct{}

// Event drops the event.
func (Discard) Event(runtime.Object, string, string, string) {}

// Eventf drops the event.
func (Discard) Eventf(runtime.Object, string, string, string, ...any) {}

// AnnotatedEventf drops the event.
func (Discard) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {}
