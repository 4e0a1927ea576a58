package reconcile

import (
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// foundFor is how long a pod that a live read found counts as present although
// the cache, which never shows a pod without our label, does not have it. It is
// looked for again this often.
const foundFor = 30 * time.Second

// found remembers the pods that live reads found and the cache does not show: a
// pod whose label somebody removed, or a foreign one with a replica's name.
// observe adds them to what it lists, so that Diff sees them like any other.
//
// A pod that has our label is one the cache is yet to show. Once the cache is at
// its resourceVersion, the cache knows better: if it does not have the pod, the
// pod is gone. Else a controller would delete it, and bind addresses to it, until
// foundFor is over, against another controller that knows it is gone.
type found struct {
	mu    sync.Mutex
	clock clock.PassiveClock
	pods  map[types.NamespacedName]sighting
}

type sighting struct {
	pod   *corev1.Pod
	until time.Time
}

func newFound(clock clock.PassiveClock) *found {
	return &found{clock: clock, pods: map[types.NamespacedName]sighting{}}
}

func (f *found) remember(pod *corev1.Pod) {
	slim, _ := SlimPod(pod)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = sighting{slim.(*corev1.Pod), f.clock.Now().Add(foundFor)}
}

// forget drops the sighting of an incarnation that was deleted or is gone.
func (f *found) forget(namespace, name string, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if s, ok := f.pods[key]; ok && s.pod.UID == uid {
		delete(f.pods, key)
	}
}

// addTo returns the listed pods of a namespace with those found besides that are
// wanted, in name order, each name once: the newer sighting counts. listedAt is
// the resourceVersion that the cache was at before they were listed. No event
// tells when a pod that was found goes, so look again after the time returned;
// zero: none was added.
func (f *found) addTo(listed []*corev1.Pod, listedAt, namespace string, wanted func(*corev1.Pod) bool) ([]*corev1.Pod, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	var again time.Duration
	for name, s := range f.pods {
		left := s.until.Sub(now)
		switch {
		case left <= 0, watched(s.pod) && !newer(s.pod.ResourceVersion, listedAt):
			delete(f.pods, name)
		case name.Namespace == namespace && wanted(s.pod):
			listed = append(listed, s.pod)
			again = soonest(again, left)
		}
	}
	slices.SortFunc(listed, func(a, b *corev1.Pod) int {
		if order := strings.Compare(a.Name, b.Name); order != 0 || a.ResourceVersion == b.ResourceVersion {
			return order
		}
		if newer(a.ResourceVersion, b.ResourceVersion) {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(listed, func(a, b *corev1.Pod) bool { return a.Name == b.Name }), again
}

// watched says whether the cache has the pod, or will have it.
func watched(pod *corev1.Pod) bool { return pod.Labels[v1.ManagedLabel] == "true" }

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
