package reconcile

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// sightingTTL is how long an object that a live read found counts as existing although the
// cache does not have it. The cache never shows objects without our label. The controller
// looks for the object again at this interval.
const sightingTTL = 30 * time.Second

// unwatched remembers the objects that live reads found and the cache does not show. A
// user may have removed their label, or they belong to another owner and have a name that
// a Pod2 needs. observe adds them to its lists, so Diff sees them like any other object.
//
// If a pod has our label, the cache will show it. Once the cache is at the pod's
// resourceVersion, the cache counts: if it does not have the pod, the pod is gone.
// Without this rule a controller would delete the pod and bind addresses to it until
// sightingTTL has passed. Another controller that knows that the pod is gone would undo
// this.
type unwatched[T metav1.Object] struct {
	mu        sync.Mutex
	clock     clock.PassiveClock
	sightings map[types.NamespacedName]sighting[T]
	// slim reduces an object to the fields that the cache keeps. watched says whether the
	// cache has the object, or will have it, under the index that the syncs of a key
	// read.
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
	f.sightings[name] = sighting[T]{f.slim(object), f.clock.Now().Add(sightingTTL)}
}

// forget drops the sighting of an object with this UID that was deleted or is gone.
func (f *unwatched[T]) forget(namespace, name string, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if s, ok := f.sightings[key]; ok && s.object.GetUID() == uid {
		delete(f.sightings, key)
	}
}

// names returns the names with sightings in a namespace.
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

// addTo adds the wanted sightings in the key's namespace to the objects that were listed
// for the key. It returns them in name order, each name once: the newer version counts.
// listedAt is the resourceVersion of the cache before the list. No event reports the
// deletion of a sighting, so look again after the returned time; zero: none was added.
func (f *unwatched[T]) addTo(key Key, listed []T, listedAt string, wanted func(T) bool) ([]T, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, unique := f.clock.Now(), len(listed)
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
	sortByName(listed)
	if len(listed) == unique { // the names of one list are
		return listed, again
	}
	kept := listed[:0]
	for _, object := range listed {
		switch last := len(kept) - 1; {
		case last < 0 || kept[last].GetName() != object.GetName():
			kept = append(kept, object)
		case newer(object.GetResourceVersion(), kept[last].GetResourceVersion()):
			kept[last] = object
		}
	}
	return kept, again
}

// labelledAtAll says whether our watch shows the object, because it has the label of a Pod2.
func labelledAtAll[T metav1.Object](_ Key, o T) bool { return o.GetLabels()[v1.Pod2Label] != "" }

// labelledFor says whether the cache finds the object under the Pod2 of the key.
func labelledFor[T metav1.Object](key Key, o T) bool { return o.GetLabels()[v1.Pod2Label] == key.Name }

// alive says whether an object of a cache has this UID and is not being deleted.
func alive(obj any, uid types.UID) bool {
	o, ok := obj.(metav1.Object)
	return ok && o.GetUID() == uid && o.GetDeletionTimestamp() == nil
}
