// Package faults runs the whole program on a simulated API server. It kills the program,
// cuts it off, shows it old views, and lets requests fail. controller_test.go at the root
// calls it with the program's own run function.
package faults

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/sim"
)

// Program is the real main loop, without its HTTP servers, which need sockets. Its methods
// are its tests.
type Program func(ctx context.Context, config *rest.Config, leaderElect bool) error

func (program Program) alone(ctx context.Context, config *rest.Config) error {
	return program.run(ctx, config, false)
}

func (program Program) electing(ctx context.Context, config *rest.Config) error {
	return program.run(ctx, config, true)
}

func (program Program) run(ctx context.Context, config *rest.Config, leaderElect bool) error {
	quiet()
	return program(klog.NewContext(ctx, sim.Logger()), config, leaderElect)
}

// quiet keeps client-go's logs of thousands of crashes out of the tests' output. One of its
// error handlers waits until a millisecond of real time has passed since the last error. In
// a bubble, that takes decades.
var quiet = sync.OnceFunc(func() {
	utilruntime.ErrorHandlers = nil
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	debug.SetGCPercent(400)
})

// outcome is the outcome of a run of a scenario.
type outcome struct {
	state, trace string // the stored objects at the end, and the writes
	essence      string
	points       map[string][]int // resourceVersions of each kind
	faults       []string
	writes       []int // of each run of the program
	stale        sim.Staleness
	first        sim.Staleness // of the first run of the program
	loud         string
	forgotten    string // a record that the AddressHistories lack, or a wrong one
	version      int
	asked        []string // kinds of requests
}

// silence is the time for which nothing may be written after all work is done.
const silence = 30 * time.Minute

// given returns the world in which the acts of a scenario begin.
func (program Program) given(t *testing.T, sc sim.Scenario) (s *sim.Snapshot) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program.alone, nil, nil)
		defer w.Close()
		w.Watch(sim.NewPromises())
		if len(sc.Given) > 0 {
			w.Create(sc.Given...)
			w.Start("given", nil)
			time.Sleep(sim.Settle)
		}
		for _, fault := range w.Faults() {
			t.Errorf("%s\n%s", fault, w.Trace())
		}
		s = w.Snapshot()
	})
	return s
}

// play performs the acts of a scenario while disturb runs the program.
func (program Program) play(t *testing.T, sc sim.Scenario, from *sim.Snapshot, choose sim.Choose, disturb func(w *sim.World)) (o outcome) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := sim.NewWorld(program.alone, choose, from)
		defer w.Close()
		promises := sim.NewPromises()
		w.Watch(promises)
		start := w.Version()
		disturb(w)
		time.Sleep(time.Minute) // until its caches are full
		sc.Do(w)
		if w.Thaw != nil {
			w.Thaw()
			time.Sleep(3 * sim.Settle) // the controller forgets failures of pods after ten minutes
		}
		o.state, o.essence = w.Render(), w.Essence()
		before := w.AllWrites()
		w.Note("silence begins")
		time.Sleep(silence)
		if n := w.AllWrites() - before; n > 0 {
			o.loud = fmt.Sprintf("%d writes in the %s after all work was done", n, silence)
		}
		for _, p := range w.Runs() {
			o.writes = append(o.writes, p.Writes())
			o.stale.Add(p.Stale())
		}
		o.first, o.forgotten = w.Runs()[0].Stale(), promises.Forgotten(w.Cluster)
		o.version, o.asked = w.Version(), w.Asked()
		o.points = map[string][]int{}
		for _, kind := range watched {
			o.points[kind] = w.Points(kind, start)
		}
		o.faults, o.trace = w.Faults(), w.Trace()
	})
	for _, kind := range o.asked {
		if !slices.Contains(apiserver.Kinds, kind) && !slices.Contains(apiserver.FaultKinds, kind) {
			t.Errorf("the program requests %s: add it to apiserver.Kinds or apiserver.FaultKinds, so test/integration compares it with the real server", kind)
		}
	}
	return o
}

// watched are the kinds of which the program may have an old view.
var watched = func() (kinds []string) {
	for _, request := range apiserver.Kinds {
		if kind, ok := strings.CutPrefix(request, "WATCH "); ok {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}()

// differs returns the fault of an outcome, "" for none: it must end in the same state.
func (o outcome) differs(want outcome) string {
	if why := o.broken(); why != "" {
		return why
	}
	if diff := sim.Differ(want.state, o.state); diff != "" {
		return "the end differs:\n" + diff
	}
	return ""
}

// strays returns the fault of an outcome, "" for none: it must end in a state that gives
// users the same.
func (o outcome) strays(want outcome) string {
	if why := o.broken(); why != "" {
		return why
	}
	if diff := sim.Differ(want.essence, o.essence); diff != "" {
		return "the end differs:\n" + diff
	}
	return ""
}

func (o outcome) broken() string {
	switch {
	case len(o.faults) > 0:
		return o.faults[0]
	case o.loud != "":
		return o.loud
	case strings.Contains(o.essence, "WRONG"):
		return "the end is wrong:\n" + o.essence
	}
	return ""
}

// undisturbed returns the outcome of a scenario without a disturbance.
func (program Program) undisturbed(t *testing.T, sc sim.Scenario, from *sim.Snapshot) outcome {
	t.Helper()
	o := program.play(t, sc, from, nil, func(w *sim.World) { w.StartAndRestart() })
	if why := cmp.Or(o.broken(), o.forgotten); why != "" {
		t.Fatalf("undisturbed: %s\n%s", why, o.trace)
	}
	return o
}

// everyScenario plays each scenario without a disturbance, and passes it to test.
func (program Program) everyScenario(t *testing.T, test func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome)) {
	for _, sc := range sim.Scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			from := program.given(t, sc)
			test(t, sc, from, program.undisturbed(t, sc, from))
		})
	}
}

// KindsOfRequests compares the requests of the program with apiserver.Kinds.
// test/integration compares the answers to these requests with those of a real
// kube-apiserver.
func (program Program) KindsOfRequests(t *testing.T) {
	asked := map[string]bool{}
	for _, sc := range sim.Scenarios {
		from := program.given(t, sc)
		o := program.undisturbed(t, sc, from)
		more := program.play(t, sc, nil, nil, func(w *sim.World) {
			w.Create(sc.Given...)
			w.StartAndRestart()
		})
		for _, kind := range slices.Concat(o.asked, more.asked) {
			asked[kind] = true
		}
	}
	if got, want := strings.Join(slices.Sorted(maps.Keys(asked)), "\n"), strings.Join(apiserver.Kinds, "\n"); got != want {
		t.Errorf("requested:\n%s\nwant, as in apiserver.Kinds:\n%s", got, want)
	}
}

// long says that there is time for everything: make check-long.
var long = os.Getenv("POD2_LONG") != ""
