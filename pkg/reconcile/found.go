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

// found remembers the pods, or claims, that live reads found and the cache does
// not show: one whose label somebody removed, or a foreign one with the name of a
// replica or of its claim. observe adds them to what it lists, so that Diff sees
// them like any other.
//
// A pod that has our label is one the cache is yet to show. Once the cache is at
// its resourceVersion, the cache knows better: if it does not have the pod, the
// pod is gone. Else a controller would delete it, and bind addresses to it, until
// foundFor is over, against another controller that knows it is gone.
type found[T metav1.Object] struct {
	mu        sync.Mutex
	clock     clock.PassiveClock
	sightings map[types.NamespacedName]sighting[T]
	// slim is what the cache keeps; watched says whether it has the object, or will
	// have it.
	slim    func(T) T
	watched func(T) bool
}

type sighting[T metav1.Object] struct {
	object T
	until  time.Time
}

func newFound[T metav1.Object](clock clock.PassiveClock, slim func(T) T, watched func(T) bool) *found[T] {
	return &found[T]{clock: clock, sightings: map[types.NamespacedName]sighting[T]{}, slim: slim, watched: watched}
}

func newFoundPods(clock clock.PassiveClock) *found[*corev1.Pod] {
	slim := func(pod *corev1.Pod) *corev1.Pod {
		slim, _ := SlimPod(pod)
		return slim.(*corev1.Pod)
	}
	return newFound(clock, slim, func(pod *corev1.Pod) bool { return pod.Labels[v1.ManagedLabel] == "true" })
}

func (f *found[T]) remember(object T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	f.sightings[name] = sighting[T]{f.slim(object), f.clock.Now().Add(foundFor)}
}

// wrote records the answer to a write. The object that our watch does not show is remembered as
// the answer has it.
func (f *found[T]) wrote(w *written, key Key, res resource, object T) {
	if f.watched(object) {
		f.forget(object.GetNamespace(), object.GetName(), object.GetUID()) // the cache has it from now on, and when it is gone
		w.wrote(key, res, object.GetResourceVersion())
		return
	}
	f.remember(object)
	w.hidden(key, res, object)
}

// forget drops the sighting of an incarnation that was deleted or is gone.
func (f *found[T]) forget(namespace, name string, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if s, ok := f.sightings[key]; ok && s.object.GetUID() == uid {
		delete(f.sightings, key)
	}
}

// names of a namespace that there are sightings under.
func (f *found[T]) names(namespace string) map[string]bool {
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

// addTo returns the listed objects of a namespace with those found besides that are
// wanted, in name order, each name once: the newer sighting counts. listedAt is
// the resourceVersion that the cache was at before they were listed. No event
// tells when one that was found goes, so look again after the time returned;
// zero: none was added.
func (f *found[T]) addTo(listed []T, listedAt, namespace string, wanted func(T) bool) ([]T, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	var again time.Duration
	for name, s := range f.sightings {
		left := s.until.Sub(now)
		switch {
		case left <= 0, f.watched(s.object) && !newer(s.object.GetResourceVersion(), listedAt):
			delete(f.sightings, name)
		case name.Namespace == namespace && wanted(s.object):
			listed = append(listed, s.object)
			again = soonest(again, left)
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

// soonest is the smaller of two delays, of which zero means never.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// alive says whether an object of a cache is the one with that UID, not yet
// being deleted.
func alive(obj any, uid types.UID) bool {
	o, ok := obj.(metav1.Object)
	return ok && o.GetUID() == uid && o.GetDeletionTimestamp() == nil
}
