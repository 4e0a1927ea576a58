//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

const (
	// retryAfter an error: most errors repeat if retried at once.
	retryAfter = time.Second
	// stuckAfter is the time after which the liveness probe reports a sync that has not ended.
	stuckAfter = 2 * time.Minute
	// restAtLeast collects changes that arrive together into one sync. The loop also rests
	// as long as a sync took, so a node with many entries uses at most half a core.
	restAtLeast = 2 * time.Millisecond
	// linesLogged limits the lines of a plan in the log.
	linesLogged = 20
)

// alarm rings on every change. To ring it again before heard is called has no effect.
type alarm struct {
	bell  chan struct{}
	mu    sync.Mutex
	since time.Time
}

func newAlarm() *alarm { return &alarm{bell: make(chan struct{}, 1)} }

func (a *alarm) ring() {
	a.mu.Lock()
	if a.since.IsZero() {
		a.since = time.Now()
	}
	a.mu.Unlock()
	select {
	case a.bell <- struct{}{}:
	default:
	}
}

// heard returns the time of the first ring since the last call; zero if there was none.
func (a *alarm) heard() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := a.since
	a.since = time.Time{}
	return since
}

// host is the kernel.
type host interface {
	Read() (dataplane.Host, error)
	Perform(dataplane.Plan) (done dataplane.Plan, err error)
	AddPodRoutes([]dataplane.PodRoute) (done dataplane.Plan, failed []error)
}

// ports are the interfaces that CNI made.
type ports interface {
	Read() ([]dataplane.Port, error)
}

// agent is the loop.
type agent struct {
	host    host
	ports   ports
	cluster func() dataplane.State
	options *options
	metrics *metrics

	// last is the desired state if the kernel had all of it, and nil while it does not yet.
	last     dataplane.Host
	problems string
	// waiting is the time of the first change that no successful sync has included yet; zero
	// if there is none.
	waiting time.Time

	mu      sync.Mutex
	state   error     // of the last sync
	started time.Time // of the running sync; zero if there is none
}

func newAgent(h host, p ports, cluster func() dataplane.State, o *options) *agent {
	return &agent{host: h, ports: p, cluster: cluster, options: o, metrics: newMetrics(), state: errors.New("waiting for the first sync")}
}

// run until ctx ends. It leaves the kernel unchanged then.
func (a *agent) run(ctx context.Context, wake *alarm) {
	logger := klog.FromContext(ctx)
	for ctx.Err() == nil {
		start := time.Now()
		since := wake.heard()
		err := a.sync(ctx, since)
		took := time.Since(start)
		a.metrics.syncs.Observe(took.Seconds())
		next := a.options.resync
		if err != nil {
			a.metrics.errors.Inc()
			logger.Error(err, "Sync failed", "retryAfter", retryAfter)
			next = retryAfter
		}
		a.rest(ctx, wake, max(restAtLeast, took), next)
	}
}

// rest at least so long, and then until the alarm rings or the next sync is due.
func (a *agent) rest(ctx context.Context, wake *alarm, least, next time.Duration) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(least):
	}
	select {
	case <-ctx.Done():
	case <-wake.bell:
	case <-time.After(next):
	}
}

// sync brings the kernel from any state to the desired one. since is the time of the first
// change that this sync includes.
func (a *agent) sync(ctx context.Context, since time.Time) (err error) {
	a.begin()
	defer func() { a.end(err) }()
	if a.waiting.IsZero() {
		a.waiting = since
	}
	s := a.cluster()
	s.Node, s.UDPPort, s.VXLANReversePathFilter = a.options.node, a.options.vxlanPort, a.options.vxlanReversePathFilter
	s.Transit, s.Denied = a.options.transit, a.options.denied
	// CNI makes an interface before it records the pod. So in this order, the only interfaces
	// without a pod are those that CNI is still making.
	if s.Host, err = a.host.Read(); err != nil {
		return err
	}
	if s.Ports, err = a.ports.Read(); err != nil {
		return err
	}
	want, report, ok := dataplane.Want(s)
	if !ok {
		a.tell(ctx, report)
		return errors.New(strings.Join(report.Problems, "; "))
	}
	plan := dataplane.Diff(s.Host, want)
	repair := a.last != nil && a.last.Equal(want)
	if !repair {
		a.last = nil // undoing a failed change is not a repair, but retrying a failed repair is
	}
	done, err := a.host.Perform(plan)
	a.log(ctx, plan, len(done), repair)
	// Routes come after the entries of the pods that they lead to. If a route cannot be added to
	// a pod, only that pod is affected: the failure is reported, and the node is ready.
	inPods, failed := a.host.AddPodRoutes(report.PodRoutes)
	a.log(ctx, inPods, len(inPods), repair)
	for _, err := range failed {
		report.Problems = append(report.Problems, err.Error())
	}
	a.tell(ctx, report)
	a.metrics.count(slices.Concat(done, inPods), repair)
	a.metrics.show(want, report)
	if err != nil {
		return fmt.Errorf("%d of %d steps done: %w", len(done), len(plan), err)
	}
	a.last = want
	if len(plan) > 0 && !a.waiting.IsZero() && !repair {
		a.metrics.programming.Observe(time.Since(a.waiting).Seconds())
	}
	a.waiting = time.Time{}
	return nil
}

// tell logs the problems once.
func (a *agent) tell(ctx context.Context, report dataplane.Report) {
	problems := strings.Join(report.Problems, "\n")
	if problems != a.problems {
		klog.FromContext(ctx).Info("Problems", "are", report.Problems)
	}
	a.problems = problems
}

func (a *agent) log(ctx context.Context, plan dataplane.Plan, done int, repair bool) {
	if done == 0 {
		return
	}
	lines := slices.Collect(strings.Lines(plan[:min(linesLogged, len(plan))].String()))
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\n")
	}
	klog.FromContext(ctx).Info("Changed the kernel", "repair", repair, "steps", len(plan), "done", done, "first", lines)
}

func (a *agent) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started = time.Now()
}

func (a *agent) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started, a.state = time.Time{}, err
	ready := 0.0
	if err == nil {
		ready = 1
	}
	a.metrics.ready.Set(ready)
}

// ready: at the last comparison the kernel matched the desired state.
func (a *agent) ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// live: no sync is stuck.
func (a *agent) live() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.started.IsZero() && time.Since(a.started) > stuckAfter {
		return fmt.Errorf("a sync that began at %s has not ended", a.started.Format(time.RFC3339))
	}
	return nil
}
