package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/pod2"
)

// The types below save work, and wait. A controller that starts without them decides the
// same.

// findings are results of one kind's syncs that a status written by another kind reports.
// Each status has one writer, so the controller does not conflict with itself. Once a
// finding was written and the cache shows it, the status counts. By then it may come from
// another controller, and two controllers must not overwrite each other forever.
type findings[T any] struct {
	mu     sync.Mutex
	byPath map[string]*finding[T]
}

type finding[T any] struct {
	uid     types.UID
	is      T
	written string // the version that reports it; "": none yet
}

func newFindings[T any]() *findings[T] { return &findings[T]{byPath: map[string]*finding[T]{}} }

func (f *findings[T]) tell(about metav1.Object, is T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byPath[pathOf(about)] = &finding[T]{uid: about.GetUID(), is: is}
}

// of returns the finding about an object in the cache; nil: there is nothing new to report.
func (f *findings[T]) of(o metav1.Object, told func(T) bool) *T {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.byPath[pathOf(o)]
	if !ok {
		return nil
	}
	if found.uid != o.GetUID() || told(found.is) || found.written != "" && !newer(found.written, o.GetResourceVersion()) {
		delete(f.byPath, pathOf(o))
		return nil
	}
	return &found.is
}

// wrote is called with the answer to the write of a status, and with the finding in that
// status, or nil. A newer finding is still to be reported.
func (f *findings[T]) wrote(answer metav1.Object, is *T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.byPath[pathOf(answer)]; found != nil && &found.is == is {
		found.written = answer.GetResourceVersion()
	}
}

func (f *findings[T]) forget(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byPath, path)
}

// confirmedOver remembers, until a sync of the key succeeds, the pods that a live read
// confirmed as terminated. That is final (see network.Over). Without it, a sync may need
// thirty answers from an API server that refuses a third of all requests. It would start
// over each time and hardly ever reach its write.
type confirmedOver struct {
	live      live
	unwatched *unwatched[*corev1.Pod]

	mu    sync.Mutex
	byKey map[Key]map[network.PodRef]bool
}

func newConfirmedOver(live live, unwatched *unwatched[*corev1.Pod]) *confirmedOver {
	return &confirmedOver{live: live, unwatched: unwatched, byKey: map[Key]map[network.PodRef]bool{}}
}

// retain forgets all pods of the key except the given ones. It returns those that are not
// known to have terminated.
func (o *confirmedOver) retain(key Key, asked []network.PodRef) (unknown []network.PodRef) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, is := o.byKey[key], map[network.PodRef]bool{}
	for _, ref := range asked {
		if was[ref] {
			is[ref] = true
		} else {
			unknown = append(unknown, ref)
		}
	}
	delete(o.byKey, key)
	if len(is) > 0 {
		o.byKey[key] = is
	}
	return unknown
}

func (o *confirmedOver) confirmed(key Key, ref network.PodRef) {
	if ref.UID == "" {
		return // a user edited an entry
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKey[key] == nil {
		o.byKey[key] = map[network.PodRef]bool{}
	}
	o.byKey[key][ref] = true
}

// forget is called after a successful sync.
func (o *confirmedOver) forget(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byKey, key)
}

// refusedResizes remembers, for each Pod2, the last resize of each pod that the API
// server called invalid; observe adds them to the State. A controller without this memory
// asks once more and is refused once more.
type refusedResizes struct {
	mu    sync.Mutex
	byKey map[Key]map[types.UID]pod2.Refusal
}

func newRefusedResizes() *refusedResizes {
	return &refusedResizes{byKey: map[Key]map[types.UID]pod2.Refusal{}}
}

func (r *refusedResizes) remember(key Key, uid types.UID, refusal pod2.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[key] == nil {
		r.byKey[key] = map[types.UID]pod2.Refusal{}
	}
	r.byKey[key][uid] = refusal
}

// without returns the resizes that were not refused.
func (r *refusedResizes) without(key Key, resizes []pod2.Resize) []pod2.Resize {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(resizes, func(resize pod2.Resize) bool {
		refusal, ok := r.byKey[key][resize.UID]
		return ok && equality.Semantic.DeepEqual(refusal.Resources, resize.Resources)
	})
}

// of returns the refusals for the pods of a State and forgets the others. A steady replica needs none.
func (r *refusedResizes) of(key Key, pods []*corev1.Pod) map[types.UID]pod2.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.byKey[key], func(uid types.UID, _ pod2.Refusal) bool {
		return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == uid })
	})
	if len(r.byKey[key]) == 0 {
		delete(r.byKey, key)
	}
	return maps.Clone(r.byKey[key])
}

// podFacts remembers the facts of the pods in each Pod2's State. So a sync reads only those of which the
// cache has another version.
type podFacts[F interface{ Of(pods []*corev1.Pod) F }] struct {
	mu    sync.Mutex
	byKey map[Key]F
}

func newPodFacts[F interface{ Of(pods []*corev1.Pod) F }]() *podFacts[F] {
	return &podFacts[F]{byKey: map[Key]F{}}
}

// of returns the facts of pods, in name order, and forgets all others.
func (f *podFacts[F]) of(key Key, pods []*corev1.Pod) F {
	f.mu.Lock()
	earlier := f.byKey[key]
	f.mu.Unlock()
	facts := earlier.Of(pods) // a key is never synced twice at once
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byKey[key] = facts; len(pods) == 0 {
		delete(f.byKey, key)
	}
	return facts
}

// throttle limits how often a value is written that many events change.
type throttle struct {
	mu    sync.Mutex
	clock clock.PassiveClock
	every time.Duration
	// burst is how many further writes need not wait after the first one.
	burst int
	ends  map[Key]time.Time
	swept time.Time // when ended items were last dropped: they may never be asked for again
}

func newThrottle(clock clock.PassiveClock, every time.Duration) *throttle {
	return &throttle{clock: clock, every: every, ends: map[Key]time.Time{}}
}

// begin is called after a write: the value then stays unchanged for a while. A single
// change is written at once.
func (p *throttle) begin(key Key) { p.beginFor(key, p.every) }

// beginFor is begin for another while.
func (p *throttle) beginFor(key Key, every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if now.Sub(p.swept) > time.Minute {
		p.swept = now
		maps.DeleteFunc(p.ends, func(_ Key, end time.Time) bool { return now.Sub(end) > time.Minute })
	}
	end := p.ends[key]
	if p.burst == 0 || end.Before(now) {
		end = now
	}
	p.ends[key] = end.Add(every)
}

// left is how much longer the value must stay unchanged; zero: it may be written.
func (p *throttle) left(key Key) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.ends[key].Sub(p.clock.Now())
	if left <= 0 {
		delete(p.ends, key)
		return 0
	}
	return max(0, left-time.Duration(p.burst)*p.every)
}

// gather is for a value that changes in several steps, if the first step alone is of no
// use. After the first call the value stays unchanged for a while.
func (p *throttle) gather(key Key, every time.Duration) {
	p.mu.Lock()
	_, began := p.ends[key]
	p.mu.Unlock()
	if !began {
		p.beginFor(key, every)
	}
}

// gathered is left for such a value: the full time before the first call of gather. Once
// that time has passed, it is zero until end is called.
func (p *throttle) gathered(key Key, every time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	end, began := p.ends[key]
	if !began {
		return every
	}
	return max(0, end.Sub(p.clock.Now()))
}

// end forgets the gathered value: it was written, or has not changed.
func (p *throttle) end(key Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ends, key)
}
