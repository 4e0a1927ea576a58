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

// gather is for what changes in several steps of which the first is worth nothing alone: from the
// first call on it is to stay as it is for a while, and the call after that, which returns zero, is
// the one to write it.
func (b *batches) gather(key Key) time.Duration {
	b.mu.Lock()
	_, began := b.ends[key]
	b.mu.Unlock()
	if !began {
		b.begin(key)
	}
	return max(0, b.left(key))
}

// end forgets what is gathered: it was written with something else, or is as it was.
func (b *batches) end(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ends, key)
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
