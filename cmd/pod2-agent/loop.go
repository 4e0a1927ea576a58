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
	// comparingShare times the duration of a full comparison of entries passes before the resync compares them again:
	// it uses at most one percent of a core.
	comparingShare = 100
	// retryShare is comparingShare after an error: at most a tenth of a core. Ports and entries, and pods that start,
	// wait for the retry.
	retryShare = 10
	// linesLogged limits the lines of a plan in the log.
	linesLogged = 20
)

// alarm rings on every change. To ring it again before the loop wakes has no effect.
type alarm chan struct{}

func newAlarm() alarm { return make(alarm, 1) }

func (a alarm) ring() {
	select {
	case a <- struct{}{}:
	default:
	}
}

// host is the kernel, apart from the ports of pods.
type host interface {
	Bridges() ([]string, error)
	Apply(dataplane.Host) (done dataplane.Plan, err error)
	AddPodRoutes(grown []dataplane.Port) (done dataplane.Plan, failed []error)
}

// ports are the ports of pods, and the programs on them and on the gateway.
type ports interface {
	State() (here []dataplane.Network, grown []dataplane.Port)
	Sync(full bool) (changes int, took time.Duration, err error)
	Block(error)
	Ready() error
	Problems() []string
	Size() map[string]int
}

// agent is the loop. It keeps the parts that depend on whole Networks and nodes: the gateway and the filter of the
// node. Ports gets the events of pods at once.
type agent struct {
	host    host
	ports   ports
	cluster func() dataplane.State
	options *options
	metrics *metrics

	// last is the desired state if the kernel had all of it, and nil while it does not yet.
	last     *dataplane.Host
	problems string
	// compared is the time of the last full comparison of entries that succeeded, comparing how long the last one took.
	compared  time.Time
	comparing time.Duration
	// tried is the time of the last sync of ports, failed its error.
	tried  time.Time
	failed error

	mu      sync.Mutex
	state   error     // of the last sync
	started time.Time // of the running sync; zero if there is none
}

func newAgent(h host, p ports, cluster func() dataplane.State, o *options) *agent {
	return &agent{host: h, ports: p, cluster: cluster, options: o, metrics: newMetrics(), state: errors.New("waiting for the first sync")}
}

// run until ctx ends. It leaves the kernel unchanged then.
func (a *agent) run(ctx context.Context, wake alarm) {
	logger := klog.FromContext(ctx)
	for ctx.Err() == nil {
		start := time.Now()
		err := a.sync(ctx)
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
func (a *agent) rest(ctx context.Context, wake alarm, least, next time.Duration) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(least):
	}
	select {
	case <-ctx.Done():
	case <-wake:
	case <-time.After(next):
	}
}

// sync brings the kernel from any state to the desired one.
func (a *agent) sync(ctx context.Context) (err error) {
	a.begin()
	defer func() { a.end(err) }()
	s := a.cluster()
	s.Node, s.UDPPort, s.VXLANReversePathFilter = a.options.node, a.options.vxlanPort, a.options.vxlanReversePathFilter
	s.Transit, s.Denied = a.options.transit, a.options.denied
	var grown []dataplane.Port
	s.Networks, grown = a.ports.State()
	if err := a.checkBridges(); err != nil {
		return err
	}
	want, err := dataplane.Want(s)
	if err != nil {
		a.tell(ctx, []string{err.Error()})
		return err
	}
	repair := a.last != nil && a.last.Equal(want)
	if !repair {
		a.last = nil // undoing a failed change is not a repair, but retrying a failed repair is
	}
	done, err := a.host.Apply(want)
	a.log(ctx, done, repair)
	a.metrics.count(done, repair)
	// The paths between pods come before complaints about the rest: pods reach each other without it.
	err = errors.Join(err, a.syncPorts())
	// A pod may refuse its route. That concerns only this pod: it is reported, and the node is ready. Most routes follow the
	// growth of a Network, which want does not have. So they count as changes.
	inPods, failed := a.host.AddPodRoutes(grown)
	a.log(ctx, inPods, false)
	a.metrics.count(inPods, false)
	var problems []string
	for _, err := range failed {
		problems = append(problems, err.Error())
	}
	problems = append(problems, a.ports.Problems()...)
	a.tell(ctx, problems)
	a.metrics.show(a.ports.Size(), len(problems))
	if err != nil {
		return err
	}
	a.last = &want
	return nil
}

// checkBridges returns an error while a bridge of an earlier version has ports of pods. These need all things of
// that version: its filter, its routers, and its VXLAN device, which has the UDP port.
func (a *agent) checkBridges() error {
	bridges, err := a.host.Bridges()
	if err != nil {
		return err
	}
	if len(bridges) > 0 {
		err = fmt.Errorf("pods that an earlier version attached are on bridge %s, and new pods wait until those are gone: drain the node", strings.Join(bridges, ", "))
		a.ports.Block(err)
	}
	return err
}

// syncPorts brings the programs and entries up to date. After an error it compares and attaches everything again. Events
// can wake the loop at once, so it waits before, and the error remains meanwhile.
func (a *agent) syncPorts() error {
	begun := time.Now()
	if a.failed != nil && begun.Sub(a.tried) < max(retryAfter, retryShare*a.comparing) {
		return a.failed
	}
	full := a.failed != nil || begun.Sub(a.compared) >= max(a.options.resync, comparingShare*a.comparing)
	complete := a.ports.Ready() == nil
	changes, took, err := a.ports.Sync(full)
	if a.tried, a.failed = begun, err; took > 0 {
		a.comparing = took
	}
	if err == nil && full {
		a.compared = begun
	}
	if !complete { // the agent itself had not written these entries yet
		changes = 0
	}
	a.metrics.entriesRepaired(changes)
	return err
}

// tell logs the problems once.
func (a *agent) tell(ctx context.Context, problems []string) {
	text := strings.Join(problems, "\n")
	if text != a.problems {
		klog.FromContext(ctx).Info("Problems", "are", problems)
	}
	a.problems = text
}

func (a *agent) log(ctx context.Context, done dataplane.Plan, repair bool) {
	if len(done) == 0 {
		return
	}
	lines := slices.Collect(strings.Lines(done[:min(linesLogged, len(done))].String()))
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\n")
	}
	klog.FromContext(ctx).Info("Changed the kernel", "repair", repair, "steps", len(done), "first", lines)
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
	if a.state != nil {
		return a.state
	}
	return a.ports.Ready()
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
