package reconcile

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// foundFor is how long an object that a live read found counts as present although
// the cache, which never shows one without our label, does not have it. It is
// looked for again this often.
const foundFor = 30 * time.Second

// unwatched remembers the objects that live reads found and the cache does not show: one
// whose label somebody removed, or a foreign one with the name of one of ours. observe adds
// them to what it lists, so that Diff sees them like any other.
//
// A pod that has our label is one the cache is yet to show. Once the cache is at
// its resourceVersion, the cache knows better: if it does not have the pod, the
// pod is gone. Else a controller would delete it, and bind addresses to it, until
// foundFor is over, against another controller that knows it is gone.
type unwatched[T metav1.Object] struct {
	mu        sync.Mutex
	clock     clock.PassiveClock
	sightings map[types.NamespacedName]sighting[T]
	// slim is what the cache keeps; watched says whether it has the object, or will
	// have it, where the syncs of a key look for theirs.
	slim    func(T) T
	watched func(Key, T) bool
}

type sighting[T metav1.Object] struct {
	object T
	until  time.Time
}

func newUnwatched[T metav1.Object](clock clock.PassiveClock, slim func(T) T, watched func(Key, T) bool) *unwatched[T] {
	return &unwatched[T]{clock: clock, sightings: map[types.NamespacedName]sighting[T]{}, slim: slim, watched: watched}
}

func newUnwatchedPods(clock clock.PassiveClock) *unwatched[*corev1.Pod] {
	slim := func(pod *corev1.Pod) *corev1.Pod {
		slim, _ := SlimPod(pod)
		return slim.(*corev1.Pod)
	}
	return newUnwatched(clock, slim, func(_ Key, pod *corev1.Pod) bool { return pod.Labels[v1.ManagedLabel] == "true" })
}

func (f *unwatched[T]) remember(object T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	f.sightings[name] = sighting[T]{f.slim(object), f.clock.Now().Add(foundFor)}
}

// forget drops the sighting of an incarnation that was deleted or is gone.
func (f *unwatched[T]) forget(namespace, name string, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if s, ok := f.sightings[key]; ok && s.object.GetUID() == uid {
		delete(f.sightings, key)
	}
}

// names of a namespace that there are sightings under.
func (f *unwatched[T]) names(namespace string) map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := map[string]bool{}
	for name := range f.sightings {
		if name.Namespace == namespace {
			names[name.Name] = true
		}
	}
	return names
}

// addTo returns the objects that were listed for a key with those found besides in its namespace that are
// wanted, in name order, each name once: the newer sighting counts. listedAt is
// the resourceVersion that the cache was at before they were listed. No event
// tells when one that was found goes, so look again after the time returned;
// zero: none was added.
func (f *unwatched[T]) addTo(key Key, listed []T, listedAt string, wanted func(T) bool) ([]T, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	var again time.Duration
	for name, s := range f.sightings {
		left := s.until.Sub(now)
		switch {
		case left <= 0, f.watched(key, s.object) && !newer(s.object.GetResourceVersion(), listedAt):
			delete(f.sightings, name)
		case name.Namespace == key.Namespace && wanted(s.object):
			listed = append(listed, s.object)
			again = plan.Soonest(again, left)
		}
	}
	slices.SortFunc(listed, func(a, b T) int {
		if order := plan.ByName(a, b); order != 0 || a.GetResourceVersion() == b.GetResourceVersion() {
			return order
		}
		if newer(a.GetResourceVersion(), b.GetResourceVersion()) {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(listed, func(a, b T) bool { return a.GetName() == b.GetName() }), again
}

// labelledAtAll says whether the watch of what has a label of ours shows the object.
func labelledAtAll[T metav1.Object](_ Key, o T) bool { return o.GetLabels()[v1.Pod2Label] != "" }

// labelledFor says whether the cache finds the object under the Pod2 of the key.
func labelledFor[T metav1.Object](key Key, o T) bool { return o.GetLabels()[v1.Pod2Label] == key.Name }

// alive says whether an object of a cache is the one with that UID, not yet
// being deleted.
func alive(obj any, uid types.UID) bool {
	o, ok := obj.(metav1.Object)
	return ok && o.GetUID() == uid && o.GetDeletionTimestamp() == nil
}
