package pod2

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// The promises, in words of their own, apart from the code that keeps them.

func isOurs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == uid && r.Controller != nil && *r.Controller })
}

// availablePods are names of pods of ours that serve, whatever their name.
func availablePods(s State) map[string]bool {
	available := map[string]bool{}
	for _, pod := range s.Pods {
		if !isOurs(pod) || pod.DeletionTimestamp != nil || attachment.Over(pod) {
			continue
		}
		for _, c := range pod.Status.Conditions {
			enough := !s.Now.Before(c.LastTransitionTime.Add(time.Duration(s.Pod2.Spec.MinReadySeconds) * time.Second))
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && enough {
				available[pod.Name] = true
			}
		}
	}
	return available
}

// tolerated is how many replicas may be missing through an update.
func tolerated(s State) int {
	n := 1
	if r := s.Pod2.Spec.UpdateStrategy.RollingUpdate; r != nil {
		switch r.MaxUnavailable.String() {
		case "2":
			n = 2
		case "9":
			n = 9
		case "50%":
			n = int(*s.Pod2.Spec.Replicas) / 2
		case "100%":
			n = int(*s.Pod2.Spec.Replicas)
		}
	}
	return max(n, 1)
}

func checkPromises(t *testing.T, s State, p Plan) {
	t.Helper()
	broken := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\nstate\n%splan\n%s", fmt.Sprintf(format, args...), describe(s), p)
	}
	if why := Converged(s); p.Empty() != (why == "") {
		broken("Empty is %t and Converged says %q", p.Empty(), why)
	}
	ours := 0
	for _, pod := range s.Pods {
		if isOurs(pod) {
			ours++
		}
	}
	if len(p.Create) > 0 && ours+len(p.Create) > int(*s.Pod2.Spec.Replicas) {
		broken("S4: %d pods and %d created", ours, len(p.Create))
	}
	for _, d := range p.Delete {
		if !slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == d.Name && pod.UID == d.UID && isOurs(pod) }) {
			broken("S6: %s is not ours", d.Name)
		}
	}
	if s.Pod2.DeletionTimestamp != nil && !p.Empty() {
		broken("a Pod2 that is being deleted")
	}
	if s.Pod2.Spec.UpdateStrategy.Type != v1.Recreate {
		available, taken := availablePods(s), 0
		for _, d := range p.Delete {
			if available[d.Name] {
				taken++
			}
		}
		if taken > 0 && len(available)-taken < int(*s.Pod2.Spec.Replicas)-tolerated(s) {
			broken("S5: %d available, %d of them deleted", len(available), taken)
		}
	}
}

func TestNothingBadHappens(t *testing.T) {
	forSeeds(t, 5000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice)
		checkPromises(t, s, Diff(s))
	})
}

func TestDiffIsAFunction(t *testing.T) {
	forSeeds(t, 1000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice)
		copied := State{Now: s.Now, Pod2: s.Pod2.DeepCopy()}
		for _, pod := range s.Pods {
			copied.Pods = append(copied.Pods, pod.DeepCopy())
		}
		for _, n := range s.Networks {
			copied.Networks = append(copied.Networks, n.DeepCopy())
		}
		first, second := Diff(s), Diff(copied)
		if !reflect.DeepEqual(first, second) {
			t.Errorf("twice the same state\n%s\nand\n%s", first, second)
		}
		// What is built belongs to the caller.
		for _, c := range first.Create {
			c.Pod.Labels["x"] = "y"
			c.Pod.Spec.Containers[0].Image = "changed"
		}
		if first.Status != nil {
			first.Status.Conditions[0].Message = "changed"
		}
		WithFailure(s, Failure{"FailedCreate", "x"})
		if !reflect.DeepEqual(s, copied) {
			t.Error("the state was changed")
		}
	})
}

// While it waits, time alone changes nothing before RequeueAfter, and something
// then.
func TestRequeueAfterIsExact(t *testing.T) {
	waiting := 0
	forSeeds(t, 5000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice)
		plan := Diff(s)
		if !plan.Empty() {
			return
		}
		later, start := s, s.Now
		if plan.RequeueAfter == 0 {
			later.Now = start.Add(time.Duration(dice.Int64N(int64(48 * time.Hour))))
			if p := Diff(later); !p.Empty() || p.RequeueAfter != 0 {
				t.Errorf("nobody said that it would change\n%s%s", describe(s), p)
			}
			return
		}
		waiting++
		later.Now = start.Add(time.Duration(dice.Int64N(int64(plan.RequeueAfter))))
		if p := Diff(later); !p.Empty() {
			t.Errorf("%s is too late\n%s%s", plan.RequeueAfter, describe(s), p)
		}
		later.Now = start.Add(plan.RequeueAfter)
		if p := Diff(later); p.Empty() {
			t.Errorf("%s is for nothing\n%s", plan.RequeueAfter, describe(s))
		}
	})
	t.Logf("%d states waited", waiting)
	if waiting < 50 {
		t.Errorf("only %d states waited: the states are too dull to prove anything", waiting)
	}
}

// describe writes a state for the reader of a failure.
func describe(s State) string {
	var b strings.Builder
	strategy := s.Pod2.Spec.UpdateStrategy
	fmt.Fprintf(&b, "  replicas %d ordinals %v minReady %d strategy %s", *s.Pod2.Spec.Replicas, s.Pod2.Spec.Ordinals, s.Pod2.Spec.MinReadySeconds, strategy.Type)
	if strategy.RollingUpdate != nil {
		fmt.Fprintf(&b, " max %s", strategy.RollingUpdate.MaxUnavailable)
	}
	fmt.Fprintf(&b, "\n  status %s\n  backoff %s\n", statusText(&s.Pod2.Status), s.Pod2.Annotations[v1.BackoffAnnotation])
	for _, pod := range s.Pods {
		ready := "-"
		if c := podCondition(pod, corev1.PodReady); c != nil {
			ready = fmt.Sprintf("%s for %s", c.Status, s.Now.Sub(c.LastTransitionTime.Time))
		}
		fmt.Fprintf(&b, "  %s (uid %s) ours %t terminating %t %s ready %s gates %d request %q updated %t\n", pod.Name, pod.UID, isOurs(pod),
			pod.DeletionTimestamp != nil, pod.Status.Phase, ready, len(pod.Spec.SchedulingGates), pod.Annotations[v1.Pod2RequestAnnotation],
			pod.Labels[v1.PodTemplateHashLabel] == RevisionHash(s.Pod2))
	}
	return b.String()
}
