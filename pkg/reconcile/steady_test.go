package reconcile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/test/chance"
)

// available returns a world with a Pod2 web whose replicas are available.
func available(t testing.TB, replicas int32) *world { return availableOf(t, newPod2("web", replicas)) }

func availableOf(t testing.TB, p *v1.Pod2) *world {
	w, replicas := newWorld(t, p), *p.Spec.Replicas
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
	all.Claims, _ = w.r.kinds.pod2.claimsOfPod2(web, state.Pod2)
	all.StorageClasses = w.r.kinds.pod2.classesOf(all.Claims)
	got = pod2.Diff(state)
	w.r.kinds.pod2.steady.keep(web, rememberedPods{replicas: got.Steady(), others: got.Others(), claims: got.OtherClaims()})
	return got, pod2.Diff(all), state, all
}

// The memory between syncs changes no decision: after each change of pods and PVCs, the plan is the same as with
// everything read again.
func TestSteadyReplicasDecideNothing(t *testing.T) {
	left, claims := 0, 0
	chance.ForSeeds(t, 200, func(t *testing.T, dice *rand.Rand) {
		w := availableOf(t, storing(8, "1Gi"))
		w.r.Watches()
		var log []string
		for range 20 {
			known := w.r.kinds.pod2.steady.get(web)
			known.compare = chance.One(dice, 4)
			w.r.kinds.pod2.steady.keep(web, known)
			var late []func()
			for range dice.IntN(3) {
				text, event := w.replicaHappens(dice, known)
				log, late = append(log, text), append(late, event)
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
			if others := w.withoutSteady(state, all.Claims); !slices.Equal(state.Claims, others) {
				t.Errorf("after\n%s\nthe PVCs are %v, want %v", strings.Join(log, "\n"), namesOf(state.Claims), namesOf(others))
				return
			}
			if got.String() != want.String() || !reflect.DeepEqual(got.Status, want.Status) {
				t.Errorf("after\n%s\nthe plan from memory is\n%s\nand the plan from everything\n%s", strings.Join(log, "\n"), got, want)
				return
			}
			left, claims = left+state.Steady.Count(), claims+len(all.Claims)-len(state.Claims)
			for _, event := range late {
				event()
			}
		}
	})
	if left < 400 || claims < 400 {
		t.Errorf("%d replicas and %d PVCs left out: too few to prove anything", left, claims)
	}
}

// replicaHappens changes something in the caches, sends the events of informers, and describes the change. It
// returns the events that are late: of pods that the next sync reads from the cache in any case.
func (w *world) replicaHappens(dice *rand.Rand, known rememberedPods) (text string, late func()) {
	late = func() {}
	name := chance.Pick(dice, "web-0", "web-1", "web-2", "web-3", "web-7", "web-9", "other")
	switch dice.IntN(16) {
	case 12, 13, 14:
		return w.claimHappens(dice, known, strings.Replace(chance.Pick(dice, name, "web-9"), "other", "web-9", 1))
	case 15:
		c := claimOf("data-"+strings.Replace(name, "other", "web-9", 1), "0")
		c.Labels, c.ResourceVersion = nil, w.next()
		w.r.writeClaims.unwatched.remember(c)
		return "a live read finds " + c.Name, late
	case 0:
		pod := chance.Pick(dice, newPod(name+" unlabelled uid=other"), w.replicaNamed(name))
		pod.ResourceVersion = w.next()
		w.r.writePods.unwatched.remember(pod)
		return "a live read finds " + name, late
	case 1:
		w.later(sightingTTL)
		w.r.podsOfPod2(Key{KindPod2, ns, "else"}) // drops old sightings
		return "time passes", late
	case 2:
		p := stored[*v1.Pod2](w, "web").DeepCopy()
		p.Spec.Replicas, p.Generation = ptr.To(4+dice.Int32N(3)), p.Generation+1+dice.Int64N(1000)
		w.must(w.r.pod2s.indexer.Update(p))
		return fmt.Sprintf("there must be %d replicas", *p.Spec.Replicas), late
	}
	old := w.r.pods.get(ns, name)
	event := func(pods ...*corev1.Pod) {
		for _, pod := range pods {
			w.r.podChanged(pod)
		}
	}
	mayBeLate := slices.Contains(known.others, old) || known.compare
	if mayBeLate && chance.One(dice, 2) {
		send := event
		event = func(pods ...*corev1.Pod) { late = func() { send(pods...) } }
	}
	if old != nil && chance.One(dice, 3) {
		w.must(w.r.pods.indexer.Delete(old))
		event(old)
		return "gone is pod " + name, late
	}
	pod := ready(w.replicaNamed(name), chance.Pick(dice, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse))
	pod.ResourceVersion = w.next()
	if chance.One(dice, 6) {
		pod.Labels[v1.PodTemplateHashLabel] = "old"
	}
	if chance.One(dice, 6) {
		pod.OwnerReferences = nil
		pod.Labels[v1.Pod2Label] = chance.Pick(dice, "web", "else")
	}
	w.must(w.r.pods.indexer.Update(pod))
	if event(pod); old != nil {
		event(old, pod)
	}
	return fmt.Sprintf("pod %s %v owned by %d", name, pod.Labels, len(pod.OwnerReferences)), late
}

// The cache shows that an updated pod is not ready, before the event of that pod arrives. The controller must not delete
// another pod then, even if the API server refuses an adoption first.
func TestNoPodIsTakenAwayFromMemory(t *testing.T) {
	for _, orphan := range []string{"", "web-0"} {
		w := available(t, 8)
		p := stored[*v1.Pod2](w, "web").DeepCopy()
		p.Spec.Template.Spec.Containers[0].Command = []string{"new"}
		w.change(p)
		if orphan != "" {
			pod := podOf(w, orphan).DeepCopy()
			pod.OwnerReferences = nil
			w.change(pod)
			p.Spec.UpdateStrategy.RollingUpdate = &v1.Pod2RollingUpdate{MaxUnavailable: ptr.To(intstr.FromInt32(2))} // one is web-0
			w.change(p)
			w.refuse = refusing("patch pods "+orphan, refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "no"))
		}
		w.catchUp()
		w.r.Watches()
		sync := func() string {
			calls, err := w.sync(KindPod2, "web")
			if orphan == "" {
				w.must(err)
			}
			return calls
		}
		for _, name := range []string{"web-7", "web-6", "web-5", "web-4", "web-3", "web-2"} {
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
		sync() // web-2 is not ready; the others are remembered
		is := ready(podOf(w, "web-2"), corev1.ConditionTrue)
		w.must(w.r.pods.indexer.Update(is))
		w.r.podChanged(is)
		w.must(w.r.pods.indexer.Update(ready(podOf(w, "web-5"), corev1.ConditionFalse)))
		w.must(w.r.pod2s.indexer.Update(stored[*v1.Pod2](w, "web")))
		if calls, err := w.sync(KindPod2, "web"); errors.Is(err, ErrStale) || strings.Contains(calls, "delete pods") || strings.Contains(calls, "patch pods web-0") != (orphan != "") {
			t.Errorf("orphan %q: web-5 is not ready, but: %v\n%s", orphan, err, calls)
		}
	}
}

// The cache shows a created pod before its event is handled.
func TestACreatedPodCountsBeforeItsEvent(t *testing.T) {
	w := available(t, 3)
	w.r.Watches()
	w.syncText(KindPod2, "web")
	gone := podOf(w, "web-1")
	w.must(w.r.pods.indexer.Delete(gone))
	w.r.podChanged(gone)
	w.remove(gone)
	if calls := w.syncText(KindPod2, "web"); !strings.Contains(calls, "create pods web-1") {
		t.Fatalf("want web-1 created, got\n%s", calls)
	}
	w.must(w.r.pods.indexer.Update(podOf(w, "web-1")))
	w.must(w.r.pod2s.indexer.Update(stored[*v1.Pod2](w, "web")))
	w.later(mostCounts)
	calls, err := w.sync(KindPod2, "web")
	if w.must(err); strings.Contains(calls, "create pods") {
		t.Errorf("web-1 is created again:\n%s", calls)
	}
}

// Go compares times with monotonic readings by these alone, which are never set back.
func TestNowShowsThatTheClockWasSetBack(t *testing.T) {
	w := available(t, 1)
	w.r.clock = clock.RealClock{}
	if _, _, state, _ := w.decide(); strings.Contains(state.Now.String(), "m=") {
		t.Errorf("Now is %s", state.Now)
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

// replicaNamed returns an available replica that is in no cache.
func (w *world) replicaNamed(name string) *corev1.Pod {
	pod := ready(podOf(w, "web-5"), corev1.ConditionTrue)
	pod.Name, pod.UID = name, types.UID("uid-of-"+name)
	pod.Labels[v1.PodIndexLabel] = strings.TrimPrefix(name, "web-")
	return pod
}
