package faults

import (
	"testing"
	"time"

	"github.com/pod2/pod2/test/sim"
)

// LeaderIsCutOff cuts the leader off at each of its writes, for longer than its lease
// lasts. The other program leads and completes all work. Then the write of the first one
// arrives.
func (program Program) LeaderIsCutOff(t *testing.T) {
	const late = time.Minute // the lease lasts 15 s
	all := sum(t)
	program.everyScenario(t, func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome) {
		count := &tally{}
		every := 9 // with more time, every write
		if long {
			every = 1
		}
		for n := 1; ; n += every {
			happened, led := false, false
			o := program.play(t, sc, from, nil, func(w *sim.World) {
				w.Program = program.electing
				w.Start("one", func(p *sim.Process) {
					p.HoldAt, p.HoldAll = n, true
					p.Held = func() {
						happened = true
						time.Sleep(late)
						led = w.LeaseTransitions() > 0
					}
				})
				time.Sleep(time.Second)
				w.Start("two", nil)
			})
			if !happened {
				break
			}
			count.add(o, want.stale)
			if why := o.strays(want); why != "" || o.stale.Applied > 0 {
				t.Fatalf("cut off at write %d: %s\n%s", n, why, o.trace)
			}
			if !led {
				t.Fatalf("cut off at write %d: the other program never led\n%s", n, o.trace)
			}
		}
		all.note(t, count)
	})
}

// TwoActive has two runs of the program work without leader election. Whenever both have a
// request, and at least one is a write, either may be executed first. The test plays every
// order of that many choices from the beginning. With more time, it starts from every
// choice.
func (program Program) TwoActive(t *testing.T) {
	depth := 3
	if long {
		depth = 6
	}
	all := sum(t)
	program.everyScenario(t, func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome) {
		count, choices := &tally{}, 0
		for first := 0; first == 0 || long && first < choices; first += depth {
			for order := range 1 << depth {
				met := 0
				o := program.play(t, sc, from, func(steps []sim.Step) int {
					one, two := -1, -1
					for i, step := range steps {
						switch {
						case step.Event:
							return i
						case one < 0 && step.Process == "one":
							one = i
						case two < 0 && step.Process == "two":
							two = i
						}
					}
					if one < 0 || two < 0 || !steps[one].Write && !steps[two].Write {
						return max(0, min(one, two))
					}
					met++
					if bit := met - 1 - first; bit >= 0 && bit < depth && order>>bit&1 == 1 {
						return two
					}
					return one
				}, func(w *sim.World) {
					w.Start("one", nil)
					w.Start("two", nil)
				})
				choices = max(choices, met)
				count.add(o, want.stale)
				if why := o.strays(want); why != "" || o.stale.Applied > 0 {
					t.Fatalf("order %0*b from choice %d on: %s\n%s", depth, order, first, why, o.trace)
				}
			}
		}
		t.Logf("depth %d of up to %d choices", depth, choices)
		all.note(t, count)
	})
}
