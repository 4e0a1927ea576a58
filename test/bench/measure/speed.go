package measure

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Speed measures how fast the machine is while other programs use it. It does the same piece of
// work again and again, for a hundredth of a core, and sums up the CPU time that it needs.
type Speed struct {
	mu    sync.Mutex
	total Work
}

// Work that was done.
type Work struct {
	Pieces int
	CPU    time.Duration
}

// pauseBetweenPieces: a piece takes about half a millisecond.
const pauseBetweenPieces = 50 * time.Millisecond

// WatchSpeed until the context ends.
func WatchSpeed(ctx context.Context) *Speed {
	s := &Speed{}
	threadCPU() // fails here if the kernel does not have the clock
	go s.run(ctx)
	return s
}

func (s *Speed) run(ctx context.Context) {
	runtime.LockOSThread() // the clock is that of a thread
	defer runtime.UnlockOSThread()
	numbers := rand.New(rand.NewPCG(1, 2)).Perm(8192) // 64 KiB, more than the first-level cache of a core
	sorted := make([]int, len(numbers))
	for ctx.Err() == nil {
		before := threadCPU()
		copy(sorted, numbers)
		slices.Sort(sorted)
		took := threadCPU() - before
		s.mu.Lock()
		s.total.Pieces++
		s.total.CPU += took
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pauseBetweenPieces):
		}
	}
}

func threadCPU() time.Duration {
	var t unix.Timespec
	Check(unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// Now returns the work since the start.
func (s *Speed) Now() Work {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Since returns the CPU time of a piece, in ms, of those that were done after an earlier Now.
func (s *Speed) Since(ctx context.Context, before Work) float64 {
	Until(ctx, pauseBetweenPieces, "a piece of work to measure the machine's speed", func() bool { return s.Now().Pieces > before.Pieces })
	now := s.Now()
	return float64((now.CPU - before.CPU).Microseconds()) / 1000 / float64(now.Pieces-before.Pieces)
}
