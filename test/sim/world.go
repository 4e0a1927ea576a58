package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/test/apiserver"
)

// Program is the program under test. It returns when ctx has ended and everything that it
// started has ended.
type Program func(ctx context.Context, config *rest.Config) error

// World is a server, a cluster around it, and runs of the program. All of it runs in one
// synctest bubble.
type World struct {
	*Cluster
	// Program is the program that Start runs.
	Program Program
	// Thaw, if not nil, ends the disturbance of the program after the acts.
	Thaw func()

	stop    chan struct{}
	running sync.WaitGroup

	interrupted bool // by one of Interrupts

	mu    sync.Mutex
	runs  []*Process
	plans []Crash
}

// Crash ends a run of the program at its n-th write: before the write or, if Applied is
// set, after the write and before its answer. The number 0 means no crash.
type Crash struct {
	At      int
	Applied bool
}

func (c Crash) String() string {
	if c.Applied {
		return fmt.Sprintf("after write %d", c.At)
	}
	return fmt.Sprintf("before write %d", c.At)
}

// restartAfter is the time between a kill and the next run.
const restartAfter = time.Second

// Snapshot is a world at one moment, without its running parts. Another bubble can continue
// from it.
type Snapshot struct {
	*apiserver.Snapshot
	age time.Duration
}

// Snapshot returns a snapshot of the present world.
func (w *World) Snapshot() *Snapshot {
	w.Lock()
	defer w.Unlock()
	return &Snapshot{w.Server.Snapshot(), time.Since(w.begin)}
}

func (w *World) restore(s *Snapshot) {
	time.Sleep(s.age)
	w.Server.Restore(s.Snapshot)
	signal(w.toCluster)
}

// NewWorld starts the cluster, but not the program. It starts from a snapshot, if it is not
// nil. Close must be called.
func NewWorld(program Program, choose Choose, from *Snapshot) *World {
	w := &World{Cluster: NewCluster(), Program: program, stop: make(chan struct{})}
	if from != nil {
		w.restore(from)
	}
	w.running.Go(func() { w.Direct(w.stop, choose) })
	w.running.Go(func() { w.RunCluster(w.stop) })
	return w
}

// Close ends every run and waits until all of them have ended.
func (w *World) Close() {
	w.mu.Lock()
	runs := slices.Clone(w.runs)
	w.plans = nil
	w.mu.Unlock()
	close(w.stop)
	for _, p := range runs {
		p.Kill()
	}
	w.running.Wait()
}

// Start runs the program once. configure, if not nil, can change the process before it
// begins.
func (w *World) Start(name string, configure func(*Process)) *Process {
	p := w.NewProcess(name)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.Ended = cancel
	if configure != nil {
		configure(p)
	}
	w.mu.Lock()
	w.runs = append(w.runs, p)
	w.mu.Unlock()
	w.running.Go(func() {
		defer cancel()
		w.ended(p, w.Program(ctx, p.Config()))
	})
	return p
}

// ended checks the end of a run. A run that is not killed never ends, unless it lost its
// lease while it was cut off.
func (w *World) ended(p *Process, err error) {
	w.Lock()
	defer w.Unlock()
	if !p.dead && !p.HoldAll {
		w.fault(fmt.Sprintf("%s ended without being killed: %v", p.Name, err))
	}
}

// StartAndRestart runs the program, and restarts it after each crash: the first crash, the
// second, and so on.
func (w *World) StartAndRestart(crashes ...Crash) *Process {
	w.mu.Lock()
	w.plans = slices.Clone(crashes)
	w.mu.Unlock()
	return w.startNext()
}

func (w *World) startNext() *Process {
	w.mu.Lock()
	crash := Crash{}
	if len(w.plans) > 0 {
		crash, w.plans = w.plans[0], w.plans[1:]
	}
	name := fmt.Sprintf("run %d", len(w.runs)+1)
	w.mu.Unlock()
	return w.Start(name, func(p *Process) {
		p.CrashAt, p.Applied = crash.At, crash.Applied
		p.Ended = func() {
			p.cancel()
			select {
			case <-w.stop:
				return
			default:
			}
			w.running.Go(func() {
				select {
				case <-time.After(restartAfter):
					w.startNext()
				case <-w.stop:
				}
			})
		}
	})
}

// Runs returns all runs of the program, in the order in which they began.
func (w *World) Runs() []*Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.runs)
}

// AllWrites is the number of writes that all runs requested.
func (w *World) AllWrites() (n int) {
	for _, p := range w.Runs() {
		n += p.Writes()
	}
	return n
}

// LeaseTransitions is the number of leader changes.
func (w *World) LeaseTransitions() (n int32) {
	w.Lock()
	defer w.Unlock()
	for _, lease := range apiserver.List[*coordinationv1.Lease](w.Server, "leases") {
		n += ptr.Deref(lease.Spec.LeaseTransitions, 0)
	}
	return n
}

// Note writes a line into the trace.
func (w *World) Note(format string, args ...any) {
	w.Lock()
	defer w.Unlock()
	w.Server.Note(format, args...)
}

func decodeJSON(text []byte) (v any) {
	if err := json.Unmarshal(text, &v); err != nil {
		panic(fmt.Sprintf("sim: decode: %v", err))
	}
	return v
}
