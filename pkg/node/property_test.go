package node

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

// arbitrary returns a State that kubelets, users, other controllers and crashes may leave.
func arbitrary(pick func(n int) int) State {
	agents := []string{"new", "NotReady", "Unknown", "Ready", "Ready going", "NotReady going", "Ready over"}
	conditions := []string{"", "True", "False", "True/Mine", "False/Mine", "Unknown/Mine"}
	var some []string
	for range pick(3) {
		some = append(some, agents[pick(len(agents))])
	}
	s := state(conditions[pick(len(conditions))], time.Duration(pick(25)-3)*time.Second, some...)
	if pick(8) == 0 {
		s.Node = nil
	}
	return s
}

func TestEmptyIsDone(t *testing.T) {
	chance.ForSeeds(t, 20_000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice.IntN)
		before := s
		before.Node = s.Node.DeepCopy()
		p := Diff(s)
		if why := undone(s); p.Empty() != (why == "") {
			t.Errorf("Empty is %t, and still to do: %q\nstate %+v\nplan\n%s", p.Empty(), why, s, p)
		}
		if !reflect.DeepEqual(before, s) || !reflect.DeepEqual(p, Diff(s)) {
			t.Errorf("the state was changed, or the second plan differs: %+v", s)
		}
	})
}

func undone(s State) string {
	if s.Node == nil {
		return ""
	}
	return spec.NodeDone(s.Node, s.Agents, s.Now)
}

// From any start, after two writes the condition is true to the facts. While only time
// would change something, the plan says when.
func TestPlansConverge(t *testing.T) {
	chance.ForSeeds(t, 20_000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice.IntN)
		for round := range 4 {
			p := Diff(s)
			if p.RequeueAfter > 0 {
				early := s
				early.Now = s.Now.Add(p.RequeueAfter - time.Nanosecond)
				if !Diff(early).Empty() {
					t.Fatalf("something changes before %s\nof %+v", p.RequeueAfter, s)
				}
				s.Now = s.Now.Add(p.RequeueAfter)
				p = Diff(s)
			}
			if p.Empty() {
				break
			}
			if round == 3 {
				t.Fatalf("still to do after %d plans:\n%s\nof %+v", round, p, s)
			}
			s.Node = carriedOut(s.Node, p)
		}
		if s.Node == nil {
			return
		}
		is := s.condition()
		if (is != nil) != (len(s.Agents) > 0) || is != nil && (is.Status == corev1.ConditionTrue) != s.ready() {
			t.Errorf("in the end the condition is %+v\nof %+v", is, s)
		}
	})
}

// carriedOut returns the Node after a plan.
func carriedOut(node *corev1.Node, p Plan) *corev1.Node {
	next := node.DeepCopy()
	next.Status.Conditions = nil
	for _, c := range node.Status.Conditions {
		if c.Type != v1.ConditionDataPlaneReady {
			next.Status.Conditions = append(next.Status.Conditions, c)
		}
	}
	if p.Set != nil {
		next.Status.Conditions = append(next.Status.Conditions, *p.Set)
	}
	return next
}
