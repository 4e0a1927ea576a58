package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/network/addressslice"
)

// come adds pods that wait for an address, and syncs the Network.
func (w *world) come(pods ...string) {
	w.t.Helper()
	for _, pod := range pods {
		w.add(newPod(pod + " gated on=blue"))
	}
	w.catchUp()
	if _, err := w.sync(KindNetwork, "blue"); err != nil {
		w.t.Fatal(err)
	}
	w.catchUp()
}

func statusText(w *world) string {
	bound, entries := stored[*v1.Network](w, "blue").Status.Bound, stored[*v1.AddressBlock](w, "blue-10.1.0.0").Spec.Entries
	return fmt.Sprintf("%d bound, of %d entries", bound, len(entries))
}

// A burst of pods causes a few status writes a second. AddressBlocks are still written at
// each sync.
func TestNumbersOfAStatusAreWrittenInBatches(t *testing.T) {
	w := newWorld(t, newNetwork("blue"))
	w.come("a")
	w.come("b", "c")
	same(t, statusText(w), "1 bound, of 3 entries")
	result, err := w.r.Sync(t.Context(), Key{KindNetwork, ns, "blue"})
	if err != nil || result.RequeueAfter != countsEvery {
		t.Errorf("it wants to run again after %s, error %v", result.RequeueAfter, err)
	}
	w.later(countsEvery)
	w.come()
	same(t, statusText(w), "3 bound, of 3 entries")
}

// A condition does not wait, because someone may wait for it.
func TestAConditionIsWrittenAtOnce(t *testing.T) {
	w := newWorld(t, newNetwork("blue 10.1.0.0/30"))
	w.come("a")
	w.come("b")
	if status := stored[*v1.Network](w, "blue").Status; !meta.IsStatusConditionFalse(status.Conditions, v1.ConditionAddressesAvailable) {
		t.Errorf("not reported at once: %+v", status.Conditions)
	}
}

func TestReplicasAreCountedInBatchesAndReadyIsToldAtOnce(t *testing.T) {
	w := newWorld(t, newPod2("web", 2))
	sync := func() (replicas int32, ready bool) {
		t.Helper()
		if _, err := w.sync(KindPod2, "web"); err != nil {
			t.Fatal(err)
		}
		w.catchUp()
		status := stored[*v1.Pod2](w, "web").Status
		return status.Replicas, meta.IsStatusConditionTrue(status.Conditions, v1.ConditionReady)
	}
	sync() // creates them
	if replicas, _ := sync(); replicas != 0 {
		t.Errorf("%d replicas are reported at once", replicas)
	}
	for _, name := range []string{"web-0", "web-1"} {
		pod := stored[*corev1.Pod](w, name).DeepCopy()
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
		w.happens(pod)
	}
	if replicas, ready := sync(); replicas != 2 || !ready {
		t.Errorf("%d replicas, ready: %t", replicas, ready)
	}
}

// When many pods terminate at once, the first is reported at once and the others two seconds
// later.
func TestAddressesAreTakenBackInBatches(t *testing.T) {
	w := newWorld(t, holders(3)...)
	for i := range 3 {
		w.add(newPod(fmt.Sprintf("p-%02d on=blue published=blue:10.1.0.%d", i, i+2)))
	}
	w.catchUp()
	bound := func() (n int) {
		t.Helper()
		if _, err := w.sync(KindNetwork, "blue"); err != nil {
			t.Fatal(err)
		}
		w.catchUp()
		for _, e := range stored[*v1.AddressBlock](w, "blue-10.1.0.0").Spec.Entries {
			if e.State == v1.AddressBound {
				n++
			}
		}
		return n
	}
	goes := func(name string) int {
		t.Helper()
		w.remove(podOf(w, name))
		w.catchUp()
		return bound()
	}
	bound() // the first status
	w.later(countsEvery)
	first, second := goes("p-00"), goes("p-01")
	w.later(releasesEvery)
	if third := bound(); first != 2 || second != 2 || third != 1 {
		t.Errorf("%d, %d and %d are bound, not 2, 2 and 1", first, second, third)
	}
}

func TestLargerObjectsAreCountedLessOften(t *testing.T) {
	for _, row := range []struct {
		pods, blocks, slices       int
		counts, releases, removals time.Duration
	}{
		{3, 1, 1, countsEvery, releasesEvery, removalsEvery},
		{600, 3, 12, 600 * time.Millisecond, 2 * time.Second, 12 * time.Second},
		{2_000, 8, 40, time.Second, 2 * time.Second, 40 * time.Second},
		{8_000, 32, 160, time.Second, 6400 * time.Millisecond, mostRemovals},
		{100_000, 400, 2000, mostCounts, mostReleases, mostRemovals},
	} {
		got := []time.Duration{countsOf(row.pods), releasesOf(row.blocks), removalsOf(addressslice.State{Name: "blue", Slices: make([]*v1.AddressSlice, row.slices)})}
		if want := []time.Duration{row.counts, row.releases, row.removals}; !slices.Equal(got, want) {
			t.Errorf("%d pods, %d AddressBlocks, %d AddressSlices: %s, want %s", row.pods, row.blocks, row.slices, got, want)
		}
	}
}

// Agents accept packets from the addresses of nodes, so those of deleted ones do not stay for long.
func TestAddressesOfNodesWaitBriefly(t *testing.T) {
	if got := removalsOf(addressslice.State{Slices: make([]*v1.AddressSlice, 200)}); got != removalsEvery {
		t.Errorf("with 200 AddressSlices they stay %s", got)
	}
}

// A key of a deleted object is never asked for again.
func TestBatchesForgetWhatNobodyAsksFor(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	b := newThrottle(clock, time.Second)
	b.begin(Key{KindPod2, ns, "gone"})
	clock.SetTime(now.Add(2 * time.Minute))
	b.begin(webNames)
	if len(b.ends) != 1 {
		t.Errorf("%d are remembered", len(b.ends))
	}
}

func TestANetworkRestsLongerAfterItBoundMany(t *testing.T) {
	for changes, want := range map[int]time.Duration{1: bindsEvery, 16: bindsEvery, 21: 200 * time.Millisecond, 256: mostBinds} {
		if got := bindsOf([]network.BlockWrite{{Binds: true, Changes: make([]string, changes)}, {Changes: make([]string, 100)}}); got != want {
			t.Errorf("%d changes: it rests %s, want %s", changes, got, want)
		}
	}
	if got := bindsOf([]network.BlockWrite{{Changes: make([]string, 100)}}); got != 0 {
		t.Errorf("it bound nothing and rests %s", got)
	}
}

func TestANetworkRestsAfterItBound(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newPod("a gated on=blue"))
	for _, want := range []time.Duration{bindsEvery, 0} {
		result, err := w.r.Sync(t.Context(), Key{KindNetwork, ns, "blue"})
		if err != nil || result.Rest != want {
			t.Errorf("it rests %s, want %s (%v)", result.Rest, want, err)
		}
		w.catchUp()
	}
}

// While releases wait, events of terminated pods cause a few plans, and then one for each rest.
func TestANetworkRestsWhileReleasesWait(t *testing.T) {
	w := newWorld(t, holders(2)...)
	for i := range 2 {
		w.add(newPod(fmt.Sprintf("p-%02d on=blue published=blue:10.1.0.%d", i, i+2)))
	}
	rest := func() time.Duration {
		t.Helper()
		w.catchUp()
		result, err := w.r.Sync(t.Context(), Key{KindNetwork, ns, "blue"})
		w.must(err)
		return result.Rest
	}
	rest() // the first status
	w.later(countsEvery)
	for i := range 2 { // the first is taken back at once, the other waits
		w.remove(podOf(w, fmt.Sprintf("p-%02d", i)))
		rest()
	}
	for i := 1; i < 2*looksBurst; i++ {
		if got := rest(); (got > 0) != (i >= looksBurst) {
			t.Errorf("after plan %d without a write it rests %s", i+1, got)
		}
	}
	w.later(time.Second)
	if got := rest(); got != 0 {
		t.Errorf("a second later it rests %s", got)
	}
}
