package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/pkg/sim"
)

// program is the real main loop, but for its HTTP servers, which need sockets.
func program(ctx context.Context, config *rest.Config) error {
	quiet()
	o := newOptions()
	o.metricsAddress, o.healthAddress = nowhere, nowhere
	return run(klog.NewContext(ctx, logr.Discard()), config, o)
}

// quiet keeps what client-go logs of thousands of crashes out of the tests' output.
var quiet = sync.OnceFunc(func() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
})

// outcome is what a run of a scenario came to.
type outcome struct {
	state, trace string
	faults       []string
	writes       []int // of each run of the program that was disturbed
	loud         string
}

// silence is how long nothing may be written when all is done.
const silence = 30 * time.Minute

// play has a scenario happen in a bubble of its own while disturb runs the program.
func play(t *testing.T, sc sim.Scenario, choose sim.Choose, disturb func(w *sim.World)) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program, choose)
		defer w.Close()
		w.Watch(sim.NewPromises())
		if len(sc.Given) > 0 {
			w.Create(sc.Given...)
			first := w.Start("given", nil)
			time.Sleep(sim.Settle)
			first.Kill()
		}
		disturb(w)
		sc.Do(w)
		o.state = w.Render()
		before := w.AllWrites()
		w.Note("silence begins")
		time.Sleep(silence)
		if n := w.AllWrites() - before; n > 0 {
			o.loud = fmt.Sprintf("%d writes in the %s after all was done", n, silence)
		}
		for _, p := range w.Runs() {
			if p.Name != "given" {
				o.writes = append(o.writes, p.Writes())
			}
		}
		o.faults, o.trace = w.Faults(), w.Trace()
	})
	return o
}

// complaint is what is wrong with an outcome, "" for nothing.
func (o outcome) complaint(want string) string {
	switch diff := sim.Differ(want, o.state); {
	case len(o.faults) > 0:
		return o.faults[0]
	case o.loud != "":
		return o.loud
	case diff != "":
		return "another end:\n" + diff
	}
	return ""
}

func TestX(t *testing.T) {
	for _, sc := range sim.Scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			begin := time.Now()
			o := play(t, sc, nil, func(w *sim.World) { w.StartAndRestart() })
			t.Log(time.Since(begin), o.writes, o.complaint(o.state))
			if os.Getenv("X") != "" {
				t.Log("\n" + o.trace)
				t.Log("\n" + o.state)
			}
		})
	}
}
