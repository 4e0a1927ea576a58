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

// Config describes a search.
type Config struct {
	Name string
	// Covers describes the search for readers.
	Covers string
	// Setup creates the world. If Then is set, one controller first does its work without
	// disturbance. Then changes the world after that, before the search begins.
	Setup, Then func(w *World)
	// Controllers is the number of controllers that write at once: 1 or 2. Each syncs all Keys.
	Controllers int
	Keys        []Key
	// The numbers of faults.
	Crashes, LostAnswers, Deaths, Ticks uint8
	// OldViews is the number of syncs that may start with caches older than the API server.
	// Any means all. A view that becomes old during its sync does not count.
	OldViews uint8
	Tick     time.Duration
	// Step is the number of ticks that pass at once, 0 for one.
	Step  uint8
	Edits []Edit
	// Ready lets pods become ready. Graceful lets deleted pods terminate before they are gone.
	Ready, Graceful bool
	// Keeps checks S3. OneWriter checks S4 and S5, and that the history of addresses is complete:
	// these hold only for one writer.
	Keeps, OneWriter bool
	// Numbered keeps the numbers of UIDs and resourceVersions in all states. An AddressHistory has
	// checksums of them.
	Numbered bool
	// End returns a fault of the world after the last transition, "" for none.
	End func(w *World) string
}

// Any allows any number of times.
const Any = 255

// Edit is an action that a user may perform this many times. Do returns false if it is
// impossible now.
type Edit struct {
	Name  string
	Times uint8
	Do    func(w *World) bool
}

// Budget returns the limits of the search. The search is exhaustive within them, and says
// nothing beyond them.
func (c *Config) Budget() string {
	views := fmt.Sprint(c.OldViews)
	if c.OldViews == Any {
		views = "any"
	}
	return fmt.Sprintf("controllers %d, crashes %d, lost answers %d, deaths %d, old views %s, ticks %d",
		max(c.Controllers, 1), c.Crashes, c.LostAnswers, c.Deaths, views, c.Ticks)
}

// Report is the result of a search.
type Report struct {
	Budget                           string
	States, Transitions, Depth, Ends int
	Took                             time.Duration
	// Violation is the fault, "" for none. Trace is the shortest path to it.
	Violation string
	Trace     []string
}

func (r *Report) String() string {
	return fmt.Sprintf("%s: %d states, %d transitions, depth %d, %d ends, %s (%.0f states/s)",
		r.Budget, r.States, r.Transitions, r.Depth, r.Ends, r.Took.Round(100*time.Millisecond), float64(r.States)/r.Took.Seconds())
}

// node is a node of the graph, with the first path that reached it.
type node struct {
	parent uint32
	action uint32 // index among the actions that expand emits
	depth  uint32
}

type fingerprint [16]byte

func fingerprintOf(text string) (f fingerprint) {
	h := fnv.New128a()
	h.Write([]byte(text))
	h.Sum(f[:0])
	return f
}

// Search visits every reachable state, breadth first, so the first violation has the
// shortest trace. most limits the number of states; 0 means no limit.
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

// replay repeats the path of the search to a state, one action a line.
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

// around follows a cycle of states.
func (m *machine) around(start *state, nodes []node, cycle []uint32, known map[fingerprint]uint32) []string {
	s, swapped, lines := m.replay(start, nodes, cycle[0])
	lines = append(lines, "-- the cycle:")
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

// describe describes the state of the API server.
func (m *machine) describe(s *state) []string {
	lines := []string{"-- the state after the last transition:"}
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
			case *v1.AddressHistory:
				text += " " + string(encoded(value.Spec))
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
