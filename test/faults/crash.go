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
			if len(o.writes) <= len(crashes) {
				return false
			}
			runs++
			if why := cmp.Or(o.differs(want), o.forgotten); why != "" {
				t.Fatalf("killed %v: %s\n%s", crashes, why, o.trace)
			}
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
		// If two keys are queued at one moment, either may be synced first. An
		// EndpointSlice may be created before or after the pods are adopted. So there may
		// be one write more or less.
		if both := 2 * ((want.writes[0] + step - 1) / step); singles < both-2 || singles > both+2 {
			t.Errorf("killed once in %d runs, want %d (two more or less): before and after %d writes, or every second of them", singles, both, want.writes[0])
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
