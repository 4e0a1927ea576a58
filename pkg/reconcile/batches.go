package reconcile

import (
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// batches keeps what many events change from being written at each of them: once
// written, it stays as it is for a while. What changes alone is written at once.
type batches struct {
	mu    sync.Mutex
	clock clock.PassiveClock
	every time.Duration
	ends  map[Key]time.Time
	swept time.Time // when those that had ended were dropped: nobody may ask for them again
}

func newBatches(clock clock.PassiveClock, every time.Duration) *batches {
	return &batches{clock: clock, every: every, ends: map[Key]time.Time{}}
}

func (b *batches) begin(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if now.Sub(b.swept) > time.Minute {
		b.swept = now
		maps.DeleteFunc(b.ends, func(_ Key, end time.Time) bool { return !end.After(now) })
	}
	b.ends[key] = now.Add(b.every)
}

// left is how long it stays as it is; zero or less: it may be written.
func (b *batches) left(key Key) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.ends[key].Sub(b.clock.Now())
	if left <= 0 {
		delete(b.ends, key)
	}
	return left
}
