package measure

import (
	"context"
	"fmt"
	"sync"
)

// Watched protects data that a watch updates, and wakes functions that wait for a change.
type Watched struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	broken  error
}

// Do f, which reads or changes the data.
func (w *Watched) Do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// Break reports that the watch has ended.
func (w *Watched) Break(err error) {
	w.Do(func() { w.broken = err })
}

// Wait until done returns true.
func (w *Watched) Wait(ctx context.Context, what string, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		changed, finished, broken := w.look(done)
		if finished {
			return
		}
		Check(broken)
		select {
		case <-changed:
		case <-ctx.Done():
			Check(fmt.Errorf("wait until %s: %w", what, ctx.Err()))
		}
	}
}

func (w *Watched) look(done func() bool) (changed <-chan struct{}, finished bool, broken error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed, done(), w.broken
}
