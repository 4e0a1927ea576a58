package faults

import (
	"cmp"
	"testing"

	"github.com/pod2/pod2/test/sim"
)

// CrashAtEveryWrite kills the program before and after each of its writes. It then kills
// the next run before and after each of its writes (in CI, of some). The program must reach
// the undisturbed end and then write nothing more. No promise is broken on the way.
func (program Program) CrashAtEveryWrite(t *testing.T) {
	program.everyScenario(t, func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome) {
		runs, step := 0, 1
		if sc.Long && !long {
			step = 2
		}
		crash := func(crashes ...sim.Crash) (happened bool) {
			o := program.play(t, sc, from, nil, func(w *sim.World) { w.StartAndRestart(crashes...) })
			if why := cmp.Or(o.differs(want), o.forgotten); why != "" {
				t.Fatalf("killed %v: %s\n%s", crashes, why, o.trace)
			}
			last := len(o.writes) - 1
			if last < len(crashes) {
				// The order of two keys that are queued at one moment is random, and so is
				// the number of writes. So compare with the writes of this run.
				if wrote, at := o.writes[last], crashes[last].At; wrote >= at {
					t.Fatalf("run %d made %d writes, but was not killed at write %d\n%s", last+1, wrote, at, o.trace)
				}
				return false
			}
			runs++
			return true
		}
		every := func(before ...sim.Crash) (firsts []sim.Crash) {
			for _, applied := range []bool{false, true} {
				for n := 1; ; n += step {
					c := sim.Crash{At: n, Applied: applied}
					if !crash(append(before[:len(before):len(before)], c)...) {
						break
					}
					firsts = append(firsts, c)
				}
			}
			return firsts
		}
		firsts := every()
		singles := runs
		if sc.Small || long {
			for i, first := range firsts {
				if sampled(i, 3) {
					every(first)
				}
			}
		}
		t.Logf("| %s | %d writes undisturbed | %d runs killed once | %d runs killed twice |", sc.Name, want.writes[0], singles, runs-singles)
	})
}
