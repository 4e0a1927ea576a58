package reconcile

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/pkg/plan"
)

// taken remembers, for each key, the objects whose names a create found taken.
// Most are somebody else's, which the cache does not show for want of a label of
// ours; observe adds them to what it lists, so that Diff sees them like any other.
// No event tells when such an object goes, so that each counts for foundFor, and
// then the name is tried again.
type taken[T metav1.Object] struct {
	mu    sync.Mutex
	clock clock.PassiveClock
	byKey map[Key]map[string]takenName[T]
}

type takenName[T metav1.Object] struct {
	by    T
	until time.Time
}

func newTaken[T metav1.Object](clock clock.PassiveClock) *taken[T] {
	return &taken[T]{clock: clock, byKey: map[Key]map[string]takenName[T]{}}
}

func (t *taken[T]) remember(key Key, by T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep() // keys whose Pod2 is gone are never asked for again
	if t.byKey[key] == nil {
		t.byKey[key] = map[string]takenName[T]{}
	}
	t.byKey[key][by.GetName()] = takenName[T]{by, t.clock.Now().Add(foundFor)}
}

// forget drops what turned out to have changed or gone.
func (t *taken[T]) forget(key Key, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(key, name)
}

func (t *taken[T]) drop(key Key, name string) {
	delete(t.byKey[key], name)
	if len(t.byKey[key]) == 0 {
		delete(t.byKey, key)
	}
}

func (t *taken[T]) sweep() {
	now := t.clock.Now()
	for key, names := range t.byKey {
		for name, remembered := range names {
			if !now.Before(remembered.until) {
				t.drop(key, name)
			}
		}
	}
}

// addTo returns the listed objects with those remembered besides, in name order;
// what is listed is newer. Look again after the time returned; zero: none was
// added.
func (t *taken[T]) addTo(key Key, listed []T) ([]T, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	var again time.Duration
	for name, remembered := range t.byKey[key] {
		if slices.ContainsFunc(listed, func(o T) bool { return o.GetName() == name }) {
			t.drop(key, name)
			continue
		}
		listed = append(listed, remembered.by)
		again = soonest(again, remembered.until.Sub(t.clock.Now()))
	}
	slices.SortFunc(listed, plan.ByName)
	return listed, again
}
