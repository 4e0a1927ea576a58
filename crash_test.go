package main

import (
	"testing"

	"github.com/pod2/pod2/pkg/sim"
)

// The program is killed before and after each of its writes, and once more before
// and after each write of the run that follows (in CI of some). It ends as it does
// undisturbed, and then is silent; no promise is broken on the way.
func TestCrashAtEveryWrite(t *testing.T) {
	everyScenario(t, func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome) {
		runs := 0
		crash := func(crashes ...sim.Crash) (happened bool) {
			o := play(t, sc, from, nil, func(w *sim.World) { w.StartAndRestart(crashes...) })
			if len(o.writes) <= len(crashes) {
				return false
			}
			runs++
			if why := o.differs(want); why != "" {
				t.Fatalf("killed %v: %s\n%s", crashes, why, o.trace)
			}
			return true
		}
		every := func(before ...sim.Crash) (firsts []sim.Crash) {
			for _, applied := range []bool{false, true} {
				for n := 1; ; n++ {
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
		if both := 2 * want.writes[0]; singles != both {
			t.Errorf("killed once in %d runs, want %d: before and after each of %d writes", singles, both, want.writes[0])
		}
		if sc.Small || long {
			for i, first := range firsts {
				if sampled(i, 3) {
					every(first)
				}
			}
		}
		t.Logf("| %s | %d writes undisturbed | %d runs killed once | %d twice |", sc.Name, want.writes[0], singles, runs-singles)
	})
}
