package reconcile

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// wholeEvery: a sync looks at all pods of its key if the last such look is this old.
const wholeEvery = 10 * time.Minute

// podEvents remembers, for each key, the pods with new events. So a sync can look at these only. A sync
// looks at all pods of a key when the key is first synced, every wholeEvery, and while no events are
// passed on.
type podEvents struct {
	mu    sync.Mutex
	clock clock.PassiveClock
	of    map[Key]*eventsOfKey
	// fed: events are passed on.
	fed bool
}

type eventsOfKey struct {
	pods   map[string]bool // names
	looked time.Time       // when all pods were last looked at; zero: do it next
}

func newPodEvents(clock clock.PassiveClock) *podEvents {
	return &podEvents{clock: clock, of: map[Key]*eventsOfKey{}}
}

func (e *podEvents) feed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fed = true
}

// changed records a pod event, or a creation that the cache may show before its event, for those of the
// keys that were synced.
func (e *podEvents) changed(keys []Key, pod string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		if news := e.of[key]; news != nil {
			news.pods[pod] = true
		}
	}
}

// doubt makes all keys of a namespace look at all their pods.
func (e *podEvents) doubt(namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, news := range e.of {
		if key.Namespace == namespace {
			news.looked = time.Time{}
		}
	}
}

// doubtOne makes one key look at all its pods.
func (e *podEvents) doubtOne(key Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if news := e.of[key]; news != nil {
		news.looked = time.Time{}
	}
}

// take returns the pods whose events must be handled now, or true if all pods must be looked at. Call it
// before reading the caches.
func (e *podEvents) take(key Key) (pods map[string]bool, whole bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	news := e.of[key]
	if news == nil {
		news = &eventsOfKey{pods: map[string]bool{}}
		e.of[key] = news
	}
	pods, news.pods = news.pods, map[string]bool{}
	now := e.clock.Now()
	if whole = !e.fed || news.looked.IsZero() || now.Sub(news.looked) >= wholeEvery; whole {
		news.looked = now
	}
	return pods, whole
}

// forget makes the next sync of a key the first one.
func (e *podEvents) forget(key Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, key)
}

// podChanged records which pod had an event, and returns the keys to sync. If a pod makes
// wokenByPod panic, it may concern any key.
func (s *shared) podChanged(obj any) (keys []Key) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	known := false
	defer func() {
		if known {
			s.podEvents.changed(keys, pod.Name)
		} else {
			s.podEvents.doubt(pod.Namespace)
		}
	}()
	keys = s.wokenByPod(pod)
	known = true
	return keys
}
