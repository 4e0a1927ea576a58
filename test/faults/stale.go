package faults

import (
	"testing"
	"time"

	"github.com/pod2/pod2/test/sim"
)

// FrozenWatches freezes each kind's watch in turn at each resourceVersion at which an
// object of that kind changed. In a short run, it takes every third one. The watch stays
// frozen until everything else has settled, then it continues. No promise is broken
// meanwhile, and the scenario ends as if nothing had happened.
func (program Program) FrozenWatches(t *testing.T) {
	all := sum(t)
	program.everyScenario(t, func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome) {
		count := &tally{}
		for _, kind := range watched {
			for i, at := range want.points[kind] {
				if !sampled(i, 3) {
					continue
				}
				o := program.play(t, sc, from, nil, func(w *sim.World) {
					p := w.StartAndRestart()
					p.Freeze(kind, at-1)
					w.Thaw = func() { p.Thaw(kind) }
				})
				count.add(o, want.stale)
				if why := o.strays(want); why != "" || carriedOut(o.stale) > 0 {
					t.Fatalf("%s frozen before resourceVersion %d: %s\n%+v\n%s", kind, at, why, o.stale, o.trace)
				}
			}
		}
		all.note(t, count)
	})
}

// RestartOnAnOlderView starts a second run of the program when all work is done. Its lists
// show each earlier resourceVersion in turn. Its requests are executed before any watch
// shows it more.
func (program Program) RestartOnAnOlderView(t *testing.T) {
	requestsFirst := func(steps []sim.Step) int {
		for i, step := range steps {
			if !step.Event {
				return i
			}
		}
		return 0
	}
	all := sum(t)
	program.everyScenario(t, func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome) {
		count := &tally{}
		for at := from.Version() + 1; at < want.version; at++ {
			if !sampled(at, 6) {
				continue
			}
			o := program.play(t, sc, from, requestsFirst, func(w *sim.World) {
				first := w.Start("first", nil)
				w.Thaw = func() {
					first.Kill()
					w.Start("second", func(p *sim.Process) { p.StartAt = at })
				}
			})
			count.add(o, o.first)
			if why := o.strays(want); why != "" || carriedOut(o.stale) > 0 {
				t.Fatalf("restarted on the view of resourceVersion %d: %s\n%+v\n%s", at, why, o.stale, o.trace)
			}
		}
		all.note(t, count)
	})
}

// HeldWrites holds each write of the program, or every second one in a short run. Meanwhile
// users edit specs, and delete and recreate objects under the same names. The write arrives
// when the program's caches have long shown these changes.
func (program Program) HeldWrites(t *testing.T) {
	all := sum(t)
	program.everyScenario(t, func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome) {
		count := &tally{}
		for n := 1; ; n++ {
			if !sampled(n-1, 2) {
				continue
			}
			happened := false
			for i, interrupt := range sim.Interrupts {
				if !long && n%len(sim.Interrupts) != i {
					continue
				}
				happened = false
				o := program.play(t, sc, from, nil, func(w *sim.World) {
					w.Start("program", func(p *sim.Process) {
						p.HoldAt = n
						p.Held = func() {
							happened = true
							interrupt.Do(w)
							time.Sleep(5 * time.Second)
						}
					})
				})
				if happened {
					count.add(o, want.stale)
				}
				if why := o.strays(want); why != "" || o.stale.Applied > 0 {
					t.Fatalf("write %d held, %s: %s\n%+v\n%s", n, interrupt.Name, why, o.stale, o.trace)
				}
			}
			if !happened {
				break
			}
		}
		all.note(t, count)
	})
}
