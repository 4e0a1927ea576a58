package model

import (
	"fmt"
	"hash/fnv"
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
	Tick                                time.Duration
	Edits                               []Edit
	// Ready: pods become ready. Graceful: deleted pods terminate before they are gone.
	Ready, Graceful bool
	// Keeps: S3 is checked. OneWriter: S4 and S5 are, which two writers do not keep.
	Keeps, OneWriter   bool
	Surge, Unavailable int
	// Incomplete: not every replica is to be there in the end.
	Incomplete bool
	// End says what is not as it should be when nothing is left to happen.
	End func(w *World) string
}

// Edit is something a user may do, so many times; false: not now.
type Edit struct {
	Name  string
	Times uint8
	Do    func(w *World) bool
}

// Report of a search.
type Report struct {
	States, Transitions, Depth, Ends int
	Took                             time.Duration
	// Violation is what is wrong, "" for nothing, and Trace the shortest way there.
	Violation string
	Trace     []string
}

func (r *Report) String() string {
	return fmt.Sprintf("%d states, %d transitions, depth %d, %d ends, %s (%.0f states/s)",
		r.States, r.Transitions, r.Depth, r.Ends, r.Took.Round(100*time.Millisecond), float64(r.States)/r.Took.Seconds())
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
	r := &Report{}
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
		r.Trace = m.trace(start, nodes, at)
		if last != nil {
			r.Trace = append(r.Trace, last.String())
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
				canonical, text := m.canonical(to)
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
					g.edge(target, a.writes)
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
	if at, cycle := g.cycle(len(nodes)); cycle != nil {
		r.Violation = "L1: there is a cycle without a fault"
		r.Trace = append(m.trace(start, nodes, at), "-- from here it goes round:")
		r.Trace = append(r.Trace, m.around(start, nodes, cycle, known)...)
	}
	return finish()
}

// trace is the way to a state, an action a line.
func (m *machine) trace(start *state, nodes []node, to uint32) []string {
	_, lines := m.replay(start, nodes, to)
	return lines
}

func (m *machine) replay(start *state, nodes []node, to uint32) (*state, []string) {
	var path []uint32
	for at := to; at != 0; at = nodes[at].parent {
		path = append(path, nodes[at].action)
	}
	lines := make([]string, 0, len(path))
	s := start
	for i := len(path) - 1; i >= 0; i-- {
		index, next := uint32(0), (*state)(nil)
		m.expand(s, func(a action, to *state) {
			if index == path[i] {
				lines = append(lines, a.String())
				next = to
			}
			index++
		})
		s, _ = m.canonical(next)
	}
	return s, lines
}

// around renders a cycle of states.
func (m *machine) around(start *state, nodes []node, cycle []uint32, known map[fingerprint]uint32) []string {
	var lines []string
	s, _ := m.replay(start, nodes, cycle[0])
	for i := range cycle {
		want, next := cycle[(i+1)%len(cycle)], (*state)(nil)
		m.expand(s, func(a action, to *state) {
			canonical, text := m.canonical(to)
			if next == nil && !a.fault && known[fingerprintOf(text)] == want {
				lines = append(lines, a.String())
				next = canonical
			}
		})
		s = next
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
