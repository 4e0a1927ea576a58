package reconcile

import (
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
}

func newBatches(clock clock.PassiveClock, every time.Duration) *batches {
	return &batches{clock: clock, every: every, ends: map[Key]time.Time{}}
}

func (b *batches) begin(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends[key] = b.clock.Now().Add(b.every)
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
