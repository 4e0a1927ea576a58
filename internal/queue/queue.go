// Package queue orders the keys that wait for a worker.
package queue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/pkg/reconcile"
)

const (
	// patience is how long a Pod2 waits behind other keys before it comes next. While a Pod2
	// creates thousands of pods, hundreds of them are in the queue, because each still needs its
	// addresses. The next sync of the Pod2 creates more pods and writes its status, which people
	// watch.
	patience = 500 * time.Millisecond
	// between is how many other keys come between two Pod2s that come next for this reason. A
	// sync that creates pods takes a worker for half a second. If many Pod2s create pods, the
	// pods must not wait for their addresses until all are created.
	between = 50
)

// New returns an empty queue. The backoff is for keys that failed.
func New(backoff workqueue.TypedRateLimiter[reconcile.Key], clock clock.WithTicker) workqueue.TypedRateLimitingInterface[reconcile.Key] {
	const name = "pod2" // a label of its metrics
	return workqueue.NewTypedRateLimitingQueueWithConfig(backoff, workqueue.TypedRateLimitingQueueConfig[reconcile.Key]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Key]{
			Name: name, Clock: clock,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Key]{
				Name: name, Clock: clock, Queue: &line{clock: clock},
			}),
		}),
	})
}

// line is first come, first served, except for Pod2s whose patience has ended:
//
//	in line, all for a second  pod a-1 to a-60, Pod2 a, Pod2 b
//	they are taken as          Pod2 a, pod a-1 to a-50, Pod2 b, pod a-51 to a-60
type line struct {
	clock         clock.PassiveClock
	pod2s, others []arrival
	left          int // others to come before a Pod2 may overtake
}

type arrival struct {
	key reconcile.Key
	at  time.Time
}

// Touch does nothing: a key that is named again keeps its turn.
func (l *line) Touch(reconcile.Key) {}

// Push adds a key.
func (l *line) Push(key reconcile.Key) {
	to := &l.others
	if key.Kind == reconcile.KindPod2 {
		to = &l.pod2s
	}
	*to = append(*to, arrival{key, l.clock.Now()})
}

// Len returns the number of keys.
func (l *line) Len() int { return len(l.pod2s) + len(l.others) }

// Pop returns the next key. Call it only if there is one.
func (l *line) Pop() reconcile.Key {
	if len(l.pod2s) > 0 {
		if len(l.others) == 0 || l.pod2s[0].at.Before(l.others[0].at) {
			return take(&l.pod2s)
		}
		if l.left == 0 && l.clock.Since(l.pod2s[0].at) >= patience {
			l.left = between
			return take(&l.pod2s)
		}
	}
	l.left = max(0, l.left-1)
	return take(&l.others)
}

func take(from *[]arrival) reconcile.Key {
	key := (*from)[0].key
	(*from)[0] = arrival{} // for the garbage collector
	*from = (*from)[1:]
	return key
}
