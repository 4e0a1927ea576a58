package pod2

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/chance"
)

// world is everything around the controller.
type world struct {
	*State
	dice *rand.Rand
	// faults: pods terminate, are deleted and lose readiness, and the spec changes.
	faults bool
	// prompt kubelets act in every step, others only in some: time alone does not lead to
	// the end.
	prompt bool
}

func (w *world) step() {
	w.Now = w.Now.Add(time.Duration(w.dice.IntN(30_000)) * time.Millisecond)
	var pods []*corev1.Pod
	for _, old := range w.Pods {
		pod := old.DeepCopy()
		predecessor := len(pod.OwnerReferences) > 0 && pod.OwnerReferences[0].UID == "u-earlier"
		switch over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded; {
		case (pod.DeletionTimestamp != nil || predecessor) && chance.One(w.dice, 2):
			continue
		case over:
		case w.faults && chance.One(w.dice, 6):
			pod.Status.Phase = chance.Pick(w.dice, corev1.PodFailed, corev1.PodSucceeded)
		case w.faults && chance.One(w.dice, 6):
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(w.Now))
		case w.faults && chance.One(w.dice, 8):
			pod.OwnerReferences = nil
		case w.faults && chance.One(w.dice, 8):
			delete(pod.Labels, chance.Pick(w.dice, v1.ManagedLabel, v1.Pod2Label, v1.PodIndexLabel, v1.PodTemplateHashLabel))
		case w.faults && chance.One(w.dice, 6):
			setCondition(pod, corev1.PodReady, corev1.ConditionFalse, "", "", w.Now)
		case len(pod.Spec.SchedulingGates) > 0:
			if chance.One(w.dice, 2) {
				pod.Spec.SchedulingGates = nil
			}
		case w.prompt || chance.One(w.dice, 2):
			pod.Status.Phase = corev1.PodRunning
			runs := corev1.ConditionFalse
			if w.kubelet(pod) {
				runs = corev1.ConditionTrue
			}
			if c := attachment.Condition(pod, corev1.PodReady); c == nil || c.Status != runs {
				setCondition(pod, corev1.PodReady, runs, "", "", w.Now)
			}
			pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		}
		pods = append(pods, pod)
	}
	w.Pods = pods
	w.stepClaims()
	if w.faults && chance.One(w.dice, 4) {
		w.Pod2 = w.Pod2.DeepCopy()
		w.Pod2.Generation++
		w.Pod2.Spec.Replicas = ptr.To(w.dice.Int32N(7))
		w.Pod2.Spec.Template.Spec.Containers[0].Image = chance.Pick(w.dice, "a", "b", "c")
		w.Pod2.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: chance.Pick(w.dice, resource.MustParse("1"), resource.MustParse("2"))}
		w.Pod2.Spec.Template.Spec.Containers[0].ResizePolicy = chance.Pick(w.dice, nil, restartForCPU)
		w.Pod2.Spec.Template.Labels = map[string]string{"a": chance.Pick(w.dice, "x", "y")}
		w.Pod2.Spec.Paused = chance.One(w.dice, 4)
		w.Pod2.Labels = chance.Pick(w.dice, nil, map[string]string{"team": "x"}, map[string]string{"team": "y", "a": "pod2"})
	}
	w.Revisions = slices.DeleteFunc(slices.Clone(w.Revisions), func(r *appsv1.ControllerRevision) bool {
		return len(r.OwnerReferences) > 0 && r.OwnerReferences[0].UID == "u-earlier"
	})
}

// sync is one sync of the controller, with the promises checked.
func (w *world) sync(t *testing.T) Plan {
	t.Helper()
	before := *w.State
	plan := Diff(before)
	checkPromises(t, before, plan)
	before.Pod2 = before.Pod2.DeepCopy()
	if err := apply(w.State, plan); err != nil {
		t.Errorf("%v\nstate\n%splan\n%s", err, describe(before), plan)
	}
	return plan
}

// L1 and L2: once faults end, every state converges, and then nothing is written.
func TestWorldConverges(t *testing.T) {
	chance.ForSeeds(t, 400, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice)
		w := &world{State: &s, dice: dice, faults: true}
		for range dice.IntN(30) {
			w.sync(t)
			w.step()
		}
		w.converge(t)
		atRest(t, s)
	})
	if adopted < 12 {
		t.Errorf("only %d pods were adopted: this world proves nothing", adopted)
	}
}

// converge ends the faults, and lets time pass until the state is at rest for good.
func (w *world) converge(t *testing.T) {
	t.Helper()
	w.faults, w.prompt = false, true
	const enough = 400 // rounds; six replicas one by one, each after the longest delay
	quiet := 0
	for round := 0; quiet < 30; round++ {
		if round > enough {
			t.Fatalf("not at rest after %d rounds: %s\n%s", enough, undone(*w.State), describe(*w.State))
		}
		plan := w.sync(t)
		if quiet++; !plan.Empty() {
			quiet = 0
		}
		w.step()
		if plan.Empty() && plan.RequeueAfter > 0 {
			w.Now = w.Now.Add(plan.RequeueAfter)
			quiet = 0
		}
	}
	w.Now = w.Now.Add(365 * 24 * time.Hour)
	if plan := Diff(*w.State); !plan.Empty() {
		t.Errorf("after a year of rest\n%s", plan)
	}
}

// atRest checks the final state that a user sees: every replica is up to date and Ready,
// unless another owner prevents it.
func atRest(t *testing.T, s State) {
	t.Helper()
	if s.Pod2.DeletionTimestamp != nil {
		return
	}
	if why := mislabelledAtRest(s); why != "" {
		t.Errorf("at rest: %s\n%s", why, describe(s))
	}
	ready := meta.FindStatusCondition(s.Pod2.Status.Conditions, v1.ConditionReady)
	switch {
	case strings.Contains("NameTaken ClaimTaken NetworkNotFound AddressInUse", ready.Reason):
	case s.Pod2.Spec.Paused && ready.Reason == ReasonUpdating:
	case ready.Status != metav1.ConditionTrue:
		t.Errorf("at rest and not Ready: %s: %s\n%s", ready.Reason, ready.Message, describe(s))
	case s.Pod2.Spec.Paused || s.Pod2.Spec.UpdateStrategy.Type == v1.OnDelete || look(s).partition() > 0:
	case s.Pod2.Status.CurrentRevision != s.Pod2.Status.UpdateRevision || s.Pod2.Status.AvailableReplicas != *s.Pod2.Spec.Replicas:
		t.Errorf("at rest and Ready with %s", statusText(&s.Pod2.Status))
	}
}
