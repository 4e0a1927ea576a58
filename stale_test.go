package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/pod2/pod2/pkg/sim"
)

// Each kind's watch is frozen in turn at each resourceVersion at which something of
// that kind changed, until all else has come to rest; then it goes on. No promise is
// broken meanwhile, and it ends as if nothing had been.
func TestFrozenWatches(t *testing.T) {
	everyScenario(t, func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome) {
		runs, stale := 0, sim.Staleness{}
		for _, kind := range watched {
			for _, at := range want.points[kind] {
				o := play(t, sc, from, nil, func(w *sim.World) {
					p := w.StartAndRestart()
					p.Freeze(kind, at-1)
					w.Thaw = func() { p.Freeze(kind, 0) }
				})
				runs++
				stale.Refused += o.stale.Refused
				stale.Held += o.stale.Held
				if why := o.strays(want); why != "" {
					t.Fatalf("%s frozen before resourceVersion %d: %s\n%s", kind, at, why, o.trace)
				}
			}
		}
		t.Logf("%d runs; %s", runs, told(stale))
	})
}

func told(s sim.Staleness) string {
	return fmt.Sprintf("writes to an object that was no longer as the watch showed it: %d refused, %d by a precondition that still held", s.Refused, s.Held)
}

var _ = time.Second
