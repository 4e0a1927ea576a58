package model

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
)

// Controller is the real one, between the caches and clients of a Stage.
type Controller interface {
	// Sync syncs once.
	Sync(ctx context.Context, key Key) error
	// Converged says "" when no write is due for the key on the caches as they are.
	Converged(key Key) string
	// Remember makes it remember this and no more; Memory is what it remembers.
	Remember(Memory)
	Memory() Memory
}

// machine computes which state follows which.
type machine struct {
	config     *Config
	controller Controller
	stage      *Stage
	clock      *clocktesting.FakePassiveClock
	objects    *objects
	writes     map[writeOf]answer
	syncs      map[string]*outcome
	scratch    numbering
	buffer     []byte
	key        []byte
	complaints []string
}

// outcome of a sync, as far as the answers to its calls go.
type outcome struct {
	next   *call // that it is about to make, nil: it is over
	memory memory
	err    error
}

// New makes the real controller.
type New func(stage *Stage, clock *clocktesting.FakePassiveClock) Controller

func newMachine(c *Config, create New, slim func(metav1.Object) metav1.Object) *machine {
	m := &machine{
		config: c, stage: newStage(), clock: clocktesting.NewFakePassiveClock(begins),
		objects: newObjects(slim), writes: map[writeOf]answer{}, syncs: map[string]*outcome{},
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

// reads are the caches that a sync of a key depends on.
func reads(k Key) []Kind {
	switch k.Kind {
	case "Network":
		return []Kind{Networks, Blocks, Pods, Pod2s}
	case "Pod":
		return []Kind{Networks, Blocks, Pods}
	case "Pod2":
		return []Kind{Networks, Pods, Pod2s, Revisions}
	}
	panic("no key of kind " + k.Kind)
}

// run is what a sync under way does next, or how it ended. It runs the real code
// from the start of the sync: it is a function of what the key of the memo is made
// of.
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
	done := &outcome{next: m.stage.client.pending, err: err}
	if done.next == nil {
		if m.stage.client.calls != len(ctl.sync.answers) {
			panic(fmt.Sprintf("%s: the sync is no function of its view and answers: %v", key, err))
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
	var out Memory
	for _, w := range mem.wrote {
		out.Wrote = append(out.Wrote, Wrote{w.key, w.kind.String(), versionText(w.version)})
	}
	for _, d := range mem.deleted {
		out.Deleted = append(out.Deleted, Deleted{d.key, d.kind.String(), d.path, uidText(d.uid)})
	}
	for _, o := range mem.found {
		out.Found = append(out.Found, o.value.(*corev1.Pod))
	}
	return out
}

func (m *machine) noticed(mem Memory) memory {
	var out memory
	kindOf := func(resource string) Kind {
		for k := range kinds {
			if k.String() == resource {
				return k
			}
		}
		panic("no kind of the resource " + resource)
	}
	for _, w := range mem.Wrote {
		out.wrote = append(out.wrote, wrote{w.Key, kindOf(w.Resource), versionNumber(w.Version)})
	}
	for _, d := range mem.Deleted {
		out.deleted = append(out.deleted, deleted{d.Key, kindOf(d.Resource), d.Path, uidNumber(d.UID)})
	}
	for _, pod := range mem.Found {
		out.found = append(out.found, m.objects.of(Pods, pod))
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

// action leads from a state to the next.
type action struct {
	who    string
	by     int // which controller, -1: none
	what   func() string
	fault  bool // of a fault, an edit, or of a view that is older than the world
	writes bool // the API server stored something for a controller
}

// text names the controllers so that each keeps its name along a trace.
func (a action) text(swapped bool) string {
	who := a.who
	if who == "" {
		who = "A"
		if (a.by == 1) != swapped {
			who = "B"
		}
	}
	return fmt.Sprintf("%-8s %s", who, a.what())
}

// expand emits what can happen in a state, in an order that depends on the state
// alone. The states are not yet canonical.
func (m *machine) expand(s *state, emit func(action, *state)) {
	for c := range s.control {
		if s.control[c].sync == nil {
			m.starts(s, c, emit)
		} else {
			m.steps(s, c, emit)
		}
		m.crashes(s, c, emit)
	}
	m.surroundings(s, emit)
	for i, e := range m.config.Edits {
		if s.left[i+fixedFaults] == 0 {
			continue
		}
		next := s.clone()
		if next.left[i+fixedFaults]--; e.Do(&World{m, next}) {
			emit(action{who: "user", what: func() string { return e.Name }, fault: true}, next)
		}
	}
}

// Faults that every configuration has a number of.
const (
	crashesLeft = iota
	lostLeft
	deathsLeft
	oldViewsLeft
	ticksLeft
	fixedFaults
)

// starts begins syncs, each on any mixture of old caches and such that catch up
// first. A sync that makes no call leaves nothing behind.
func (m *machine) starts(s *state, c int, emit func(action, *state)) {
	for key := range m.config.Keys {
		var lagging []Kind
		for _, k := range reads(m.config.Keys[key]) {
			if s.control[c].at[k] != s.last[k] {
				lagging = append(lagging, k)
			}
		}
		for subset := range 1 << len(lagging) {
			fresh := subset == 1<<len(lagging)-1
			if !fresh && s.left[oldViewsLeft] == 0 {
				continue
			}
			next := s.clone()
			if !fresh && s.left[oldViewsLeft] != Any {
				next.left[oldViewsLeft]--
			}
			ctl := &next.control[c]
			for i, k := range lagging {
				if subset&(1<<i) != 0 {
					ctl.cache[k], ctl.at[k] = s.shown(k, m.watched), s.last[k]
				}
			}
			ctl.sync = &syncing{key: uint8(key), ticks: s.ticks}
			first := m.run(ctl).next
			if first == nil {
				continue
			}
			emit(action{by: c, fault: !fresh, what: func() string {
				text := "starts to sync " + m.config.Keys[key].String()
				for i, k := range lagging {
					if subset&(1<<i) == 0 {
						text += fmt.Sprintf(", its cache of %s is old", k)
					}
				}
				return text
			}}, next)
		}
	}
}

// steps makes the next call of a sync under way.
func (m *machine) steps(s *state, c int, emit func(action, *state)) {
	pending := m.run(&s.control[c]).next
	step := func(lost bool) {
		next := s.clone()
		m.checkCall(s, c, pending)
		before := next.last
		a := m.serve(next, pending)
		a.to = pending.brief()
		stored := next.last != before
		what := func() string {
			text := pending.trace()
			if a.err != none {
				text += " -> " + a.err.String()
			}
			return text
		}
		if lost {
			if !stored {
				return
			}
			next.left[lostLeft]--
			a = answer{to: a.to, err: timeout}
			text := what
			what = func() string { return text() + ", and the answer is lost" }
		}
		m.checkWrite(s, next, c, pending, stored)
		ctl := &next.control[c]
		ctl.sync = &syncing{key: ctl.sync.key, ticks: ctl.sync.ticks, answers: append(slices.Clip(ctl.sync.answers), a)}
		if after := m.run(ctl); after.next == nil {
			ctl.memory, ctl.sync = after.memory, nil
		}
		emit(action{by: c, what: what, fault: lost, writes: stored}, next)
	}
	step(false)
	if s.left[lostLeft] > 0 && pending.writes() {
		step(true)
	}
}

// crashes ends a controller, which starts again with nothing but what the API
// server has.
func (m *machine) crashes(s *state, c int, emit func(action, *state)) {
	if s.left[crashesLeft] == 0 || s.control[c].sync == nil && s.control[c].memory.empty() {
		return
	}
	next := s.clone()
	next.left[crashesLeft]--
	ctl := &next.control[c]
	*ctl = control{}
	for k := range kinds {
		ctl.cache[k], ctl.at[k] = next.shown(k, m.watched), next.last[k]
	}
	emit(action{by: c, what: func() string { return "crashes and starts again" }, fault: true}, next)
}

// initial is the state in which the search begins.
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
	}
	next, _, _ := m.canonical(s)
	return next
}

// settle lets one controller do its work, undisturbed.
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

// Discard is an EventRecorder: events decide nothing.
type Discard struct{}

// Event is not kept.
func (Discard) Event(runtime.Object, string, string, string) {}

// Eventf is not kept.
func (Discard) Eventf(runtime.Object, string, string, string, ...any) {}

// AnnotatedEventf is not kept.
func (Discard) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {}

var _ = time.Second
