package model

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// Config is what a search is about.
type Config struct {
	Name string
	// Covers says what is explored, for people.
	Covers string
	// Setup makes the world. If there is Then, one controller first does its work,
	// undisturbed, and then Then changes the world, before the search begins.
	Setup, Then func(w *World)
	// Controllers that write at once: 1 or 2. All keys are those of each.
	Controllers int
	Keys        []Key
	// Numbers of faults.
	Crashes, LostAnswers, Deaths, Ticks uint8
	// OldViews is how many syncs may start with caches that are older than the API
	// server; Any: all. A view that grows old while its sync is under way counts not.
	OldViews uint8
	Tick     time.Duration
	Edits    []Edit
	// Ready: pods become ready. Graceful: deleted pods terminate before they are gone.
	Ready, Graceful bool
	// Keeps: S3 is checked. OneWriter: S4 and S5 are, which two writers do not keep.
	Keeps, OneWriter bool
	// End says what is not as it should be when nothing is left to happen.
	End func(w *World) string
}

// Any number of times.
const Any = 255

// Edit is something a user may do, so many times; false: not now.
type Edit struct {
	Name  string
	Times uint8
	Do    func(w *World) bool
}

// Budget says of what there is how much: a search is exhaustive for that, and for
// no more.
func (c *Config) Budget() string {
	views := fmt.Sprint(c.OldViews)
	if c.OldViews == Any {
		views = "any"
	}
	return fmt.Sprintf("controllers %d, crashes %d, lost answers %d, deaths %d, old views %s, ticks %d",
		max(c.Controllers, 1), c.Crashes, c.LostAnswers, c.Deaths, views, c.Ticks)
}

// Report of a search.
type Report struct {
	Budget                           string
	States, Transitions, Depth, Ends int
	Took                             time.Duration
	// Violation is what is wrong, "" for nothing, and Trace the shortest way there.
	Violation string
	Trace     []string
}

func (r *Report) String() string {
	return fmt.Sprintf("%s: %d states, %d transitions, depth %d, %d ends, %s (%.0f states/s)",
		r.Budget, r.States, r.Transitions, r.Depth, r.Ends, r.Took.Round(100*time.Millisecond), float64(r.States)/r.Took.Seconds())
}

// node of the graph: how it was reached first.
type node struct {
	parent uint32
	action uint32 // index among what expand emits
	depth  uint32
}

type fingerprint [16]byte

func fingerprintOf(text string) (f fingerprint) {
	h := fnv.New128a()
	h.Write([]byte(text))
	h.Sum(f[:0])
	return f
}

// Search visits every state that can be reached, breadth first, so that the first
// violation has the shortest trace. most bounds how many, 0: not at all.
func Search(c *Config, create New, slim func(metav1.Object) metav1.Object, most int) *Report {
	began := time.Now()
	m := newMachine(c, create, slim)
	r := &Report{Budget: c.Budget()}
	start := m.initial()
	m.complaints = nil
	_, text := m.numbered(start)
	known := map[fingerprint]uint32{fingerprintOf(text): 0}
	nodes := []node{{}}
	frontier := []*state{start}
	first := uint32(0)
	g := &graph{}

	violated := func(at uint32, last *action) bool {
		if len(m.complaints) == 0 {
			return false
		}
		r.Violation = m.complaints[0]
		_, swapped, lines := m.replay(start, nodes, at)
		if r.Trace = lines; last != nil {
			r.Trace = append(r.Trace, last.text(swapped))
		}
		return true
	}
	finish := func() *Report {
		r.States, r.Took = len(nodes), time.Since(began)
		return r
	}
	for len(frontier) > 0 {
		var following []*state
		for i, s := range frontier {
			id := first + uint32(i)
			index, ended, stop := uint32(0), true, false
			g.begin(id)
			m.expand(s, func(a action, to *state) {
				if stop {
					return
				}
				r.Transitions++
				canonical, text, _ := m.canonical(to)
				print := fingerprintOf(text)
				target, seen := known[print]
				if !seen {
					target = uint32(len(nodes))
					known[print] = target
					nodes = append(nodes, node{id, index, nodes[id].depth + 1})
					r.Depth = int(nodes[target].depth)
					following = append(following, canonical)
					m.checkState(canonical)
				}
				if !a.fault {
					ended = false
					g.edge(target)
				}
				index++
				stop = violated(id, &a)
			})
			if stop {
				return finish()
			}
			if ended {
				r.Ends++
				if m.checkEnd(s); violated(id, nil) {
					r.Trace = append(r.Trace, m.describe(s)...)
					return finish()
				}
			}
			if most > 0 && len(nodes) > most {
				r.Violation = fmt.Sprintf("more than %d states: this search is not exhaustive", most)
				return finish()
			}
		}
		first += uint32(len(frontier))
		frontier = following
	}
	if cycle := g.cycle(len(nodes)); cycle != nil {
		r.Violation = "L1: there is a cycle without a fault"
		r.Trace = m.around(start, nodes, cycle, known)
	}
	return finish()
}

// replay goes the way to a state that the search went, an action a line.
func (m *machine) replay(start *state, nodes []node, to uint32) (s *state, swapped bool, lines []string) {
	var path []uint32
	for at := to; at != 0; at = nodes[at].parent {
		path = append(path, nodes[at].action)
	}
	s = start
	for _, wanted := range slices.Backward(path) {
		index, next := uint32(0), (*state)(nil)
		m.expand(s, func(a action, to *state) {
			if index == wanted {
				lines = append(lines, a.text(swapped))
				next = to
			}
			index++
		})
		var turned bool
		s, _, turned = m.canonical(next)
		swapped = swapped != turned
	}
	return s, swapped, lines
}

// around goes along a cycle of states.
func (m *machine) around(start *state, nodes []node, cycle []uint32, known map[fingerprint]uint32) []string {
	s, swapped, lines := m.replay(start, nodes, cycle[0])
	lines = append(lines, "-- from here it goes round:")
	for i := range cycle {
		want, next, turned := cycle[(i+1)%len(cycle)], (*state)(nil), false
		m.expand(s, func(a action, to *state) {
			canonical, text, turn := m.canonical(to)
			if next == nil && !a.fault && known[fingerprintOf(text)] == want {
				lines = append(lines, a.text(swapped))
				next, turned = canonical, turn
			}
		})
		s, swapped = next, swapped != turned
	}
	return lines
}

// describe is the state of the API server.
func (m *machine) describe(s *state) []string {
	lines := []string{"-- where nothing is left to happen:"}
	for k := range kinds {
		for _, o := range s.server[k] {
			text := fmt.Sprintf("%s %s %s", k, o.name, o.value.GetUID())
			if o.value.GetDeletionTimestamp() != nil {
				text += " terminating"
			}
			if f := o.value.GetFinalizers(); len(f) > 0 {
				text += " finalizers " + strings.Join(f, ",")
			}
			switch value := o.value.(type) {
			case *v1.AddressBlock:
				text += " " + blockText(value)
			case *corev1.Pod:
				owner := attachment.Owner(value)
				text += fmt.Sprintf(" of %s/%s gated=%t phase=%s ready=%t %v", owner.Kind, owner.Name, attachment.Gated(value), value.Status.Phase, podReady(value), value.Annotations)
				for _, c := range value.Status.Conditions {
					text += fmt.Sprintf(" %s=%s/%s(%s)", c.Type, c.Status, c.Reason, c.Message)
				}
			case *v1.Network:
				text += " " + string(encoded(value.Status))
			case *v1.Pod2:
				text += " " + string(encoded(value.Status))
			}
			lines = append(lines, text)
		}
	}
	return lines
}
