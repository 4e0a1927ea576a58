package pod2

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/test/chance"
)

// Some pods are unchanged since the earlier look, some have changed, and some are new or gone.
func TestFactsDecideNothing(t *testing.T) {
	chance.ForSeeds(t, 5000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice)
		var earlier []*corev1.Pod
		for _, pod := range s.Pods {
			switch dice.IntN(4) {
			case 0:
			case 1:
				other := arbitraryPod(dice, s.Pod2, pod.Name, 1)
				other.UID = pod.UID
				earlier = append(earlier, other)
			default:
				earlier = append(earlier, pod)
			}
		}
		if chance.One(dice, 3) {
			earlier = append(earlier, arbitraryPod(dice, s.Pod2, "web-9", 1))
		}
		slices.SortStableFunc(earlier, plan.ByName)
		want := Diff(s)
		s.Facts = Facts(nil).Of(earlier)
		facts := s.Facts.Of(s.Pods)
		if got := Diff(s); !reflect.DeepEqual(got.String(), want.String()) {
			t.Errorf("with facts of an earlier look, the plan is\n%s\nwithout\n%s", got, want)
		}
		if !alike(s.Facts.Of(s.Pods), facts) || !alike(facts, Facts(nil).Of(s.Pods)) {
			t.Error("the decision changed the facts")
		}
	})
}

// alike compares facts. Without pods, they may be nil or not.
func alike(a, b Facts) bool {
	return slices.EqualFunc(a, b, func(a, b *fact) bool { return reflect.DeepEqual(a, b) })
}

func TestOnlyChangedPodsAreReadAgain(t *testing.T) {
	s := state(t, "replicas=4", "web-0", "web-1", "web-2", "web-3")
	earlier := Facts(nil).Of(s.Pods)
	pods := slices.Clone(s.Pods)
	pods[2] = pods[2].DeepCopy()
	pods = slices.Delete(pods, 0, 1) // web-1, web-2 changed, web-3
	facts := earlier.Of(pods)
	if facts[0] != earlier[1] || facts[1] == earlier[2] || facts[1].pod != pods[1] || facts[2] != earlier[3] {
		t.Error("an unchanged pod was read again, or a changed one was not")
	}
	if again := facts.Of(pods); &again[0] != &facts[0] {
		t.Error("nothing changed, and there are new facts")
	}
}
