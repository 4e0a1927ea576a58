package reconcile

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/test/chance"
)

// available returns a world with a Pod2 web whose replicas are available.
func available(t testing.TB, replicas int32) *world {
	w := newWorld(t, newPod2("web", replicas))
	settle := func() {
		for range 5 {
			if _, err := w.sync(KindPod2, "web"); err != nil {
				t.Fatal(err)
			}
			w.catchUp()
			w.later(mostCounts)
		}
	}
	settle()
	for i := range replicas {
		w.change(ready(podOf(w, fmt.Sprintf("web-%d", i)), corev1.ConditionTrue))
	}
	w.catchUp()
	settle()
	return w
}

func ready(pod *corev1.Pod, status corev1.ConditionStatus) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(now)}}
	return pod
}

// decide is a sync without its writes. It returns the plan, and the one for the same view without a memory.
func (w *world) decide() (got, want pod2.Plan, state, all pod2.State) {
	state, _, err := w.r.kinds.pod2.observe(web)
	w.must(err)
	all = state
	all.Steady, all.Facts = nil, nil
	all.Pods, _ = w.r.podsOfPod2(web)
	got = pod2.Diff(state)
	w.r.kinds.pod2.steady.keep(web, got.Steady(), got.Others())
	return got, pod2.Diff(all), state, all
}

// The memory between syncs changes no decision: after each change of pods, the plan is the same as with all
// pods read again.
func TestSteadyReplicasDecideNothing(t *testing.T) {
	left := 0
	chance.ForSeeds(t, 200, func(t *testing.T, dice *rand.Rand) {
		w := available(t, 6)
		w.r.Watches()
		var log []string
		for range 20 {
			for range dice.IntN(3) {
				log = append(log, w.replicaHappens(dice))
			}
			if chance.One(dice, 6) { // a decision that is not applied
				if _, _, err := w.r.kinds.pod2.observe(web); err != nil {
					t.Fatal(err)
				}
			}
			got, want, state, all := w.decide()
			if !slices.IsSortedFunc(state.Pods, plan.ByName) || len(state.Pods)+state.Steady.Count() != len(all.Pods) {
				t.Errorf("after\n%s\nthe pods are %v and %d steady ones, of %v", strings.Join(log, "\n"), namesOf(state.Pods), state.Steady.Count(), namesOf(all.Pods))
				return
			}
			if got.String() != want.String() || !reflect.DeepEqual(got.Status, want.Status) {
				t.Errorf("after\n%s\nthe plan from memory is\n%s\nand the plan from everything\n%s", strings.Join(log, "\n"), got, want)
				return
			}
			left += state.Steady.Count()
		}
	})
	if left < 400 {
		t.Errorf("%d replicas left out: too few to prove anything", left)
	}
}

// replicaHappens changes something in the caches, sends the events of informers, and describes the change.
func (w *world) replicaHappens(dice *rand.Rand) string {
	name := chance.Pick(dice, "web-0", "web-1", "web-2", "web-3", "web-7", "other")
	switch dice.IntN(12) {
	case 0:
		pod := chance.Pick(dice, newPod(name+" unlabelled uid=other"), ready(podOf(w, "web-5"), corev1.ConditionTrue))
		pod.Name, pod.ResourceVersion = name, w.next()
		w.r.writePods.unwatched.remember(pod)
		return "a live read finds " + name
	case 1:
		w.later(sightingTTL)
		return "time passes"
	case 2:
		p := stored[*v1.Pod2](w, "web").DeepCopy()
		p.Spec.Replicas = ptr.To(4 + dice.Int32N(3))
		w.must(w.r.pod2s.indexer.Update(p))
		return fmt.Sprintf("there must be %d replicas", *p.Spec.Replicas)
	}
	old := w.r.pods.get(ns, name)
	late := slices.Contains(w.r.kinds.pod2.steady.get(web).others, old) && chance.One(dice, 2) // the cache is read anyway
	if old != nil {
		if !late {
			w.r.podChanged(old)
		}
		if chance.One(dice, 3) {
			w.must(w.r.pods.indexer.Delete(old))
			return "gone is pod " + name
		}
	}
	pod := ready(podOf(w, "web-5"), chance.Pick(dice, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse))
	pod.Name, pod.UID, pod.ResourceVersion = name, types.UID("uid-of-"+name), w.next()
	pod.Labels[v1.PodIndexLabel] = strings.TrimPrefix(name, "web-")
	if chance.One(dice, 6) {
		pod.Labels[v1.PodTemplateHashLabel] = "old"
	}
	if chance.One(dice, 6) {
		pod.OwnerReferences = nil
		pod.Labels[v1.Pod2Label] = chance.Pick(dice, "web", "else")
	}
	w.must(w.r.pods.indexer.Update(pod))
	if !late {
		w.r.podChanged(pod)
	}
	return fmt.Sprintf("pod %s %v owned by %d", name, pod.Labels, len(pod.OwnerReferences))
}

// The next pod of an update is not deleted if an updated one is no longer ready, although no event has said so.
func TestNoPodIsTakenAwayFromMemory(t *testing.T) {
	w := available(t, 6)
	p := stored[*v1.Pod2](w, "web").DeepCopy()
	p.Spec.Template.Spec.Containers[0].Command = []string{"new"}
	w.change(p)
	w.catchUp()
	w.r.Watches()
	sync := func() string {
		calls, err := w.sync(KindPod2, "web")
		w.must(err)
		return calls
	}
	for _, name := range []string{"web-5", "web-4", "web-3", "web-2"} {
		if calls := sync(); !strings.Contains(calls, "delete pods "+name) {
			t.Fatalf("want %s deleted, got\n%s", name, calls)
		}
		w.catchUp()
		sync()
		if name != "web-2" {
			w.change(ready(podOf(w, name), corev1.ConditionTrue))
		}
		w.catchUp()
	}
	same(t, sync(), "") // web-2 is not ready; the others are remembered
	is := ready(podOf(w, "web-2"), corev1.ConditionTrue)
	w.must(w.r.pods.indexer.Update(is))
	w.r.podChanged(is)
	w.must(w.r.pods.indexer.Update(ready(podOf(w, "web-5"), corev1.ConditionFalse)))
	if calls := sync(); strings.Contains(calls, "delete pods") {
		t.Errorf("web-5 is not ready, but\n%s", calls)
	}
}

// A new image of a Sidecar may reach any replica.
func TestPodsAreReadForSidecars(t *testing.T) {
	w := available(t, 3)
	w.r.Watches()
	for range 2 {
		w.decide()
	}
	w.must(w.r.sidecars.indexer.Add(newSidecar(1)))
	if _, _, state, _ := w.decide(); len(state.Pods) != 3 {
		t.Errorf("the pods are %v", namesOf(state.Pods))
	}
}
