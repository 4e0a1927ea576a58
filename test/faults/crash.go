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
				t.Fatalf("runs were to be killed %v, and made %d writes: %s\n%s", crashes, o.writes, why, o.trace)
			}
			// The order of two keys that are queued at one moment is random, and so is the number of writes. So a run
			// may end before the write at which it was to be killed.
			for i, c := range crashes[:min(len(crashes), len(o.writes))] {
				killed := i+1 < len(o.writes)
				if wrote := o.writes[i]; killed && wrote != c.At || !killed && wrote >= c.At {
					t.Fatalf("run %d was to be killed at write %d; killed: %t, after %d writes\n%s", i+1, c.At, killed, wrote, o.trace)
				}
			}
			if len(o.writes) > len(crashes) {
				runs++
				return true
			}
			return false
		}
		// every kills the next run at each of its writes. The first run is tried at each write of the undisturbed one.
		every := func(before ...sim.Crash) (firsts []sim.Crash) {
			for _, applied := range []bool{false, true} {
				for n := 1; ; n += step {
					c := sim.Crash{At: n, Applied: applied}
					if crash(append(before[:len(before):len(before)], c)...) {
						firsts = append(firsts, c)
					} else if len(before) > 0 || n >= want.writes[0] {
						break
					}
				}
			}
			return firsts
		}
		firsts := every()
		singles := runs
		if all := 2 * want.writes[0] / step; 4*singles < 3*all {
			t.Errorf("killed once in only %d runs, want about %d: before and after %d writes, or every second of them", singles, all, want.writes[0])
		}
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
