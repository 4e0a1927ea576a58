package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// leaseTolerance is how long a leader may go on after its lease has expired before
// it is called dead: it should have ended itself.
const leaseTolerance = 20 * time.Second

// Health answers the probes.
//
//	live    no sync is stuck, etcd was not restored to an older state, and no leader
//	        outlives its lease: what a restart repairs
//	ready   the caches were filled once, the lease said once who leads, and the process
//	        does not stop. Leading or not: a standby can take over, and a rolling update
//	        ends the leader only when its successor is ready.
type Health struct {
	stops    atomic.Bool
	waitsFor atomic.Pointer[string]
	checks   atomic.Pointer[[]func() error]
	lease    *leaderelection.HealthzAdaptor
}

// NewHealth is of a process that stops when ctx ends.
func NewHealth(ctx context.Context) *Health {
	h := &Health{lease: leaderelection.NewLeaderHealthzAdaptor(leaseTolerance)}
	h.Await("its start")
	context.AfterFunc(ctx, func() { h.stops.Store(true) })
	return h
}

// Await says what is not there yet; "" for nothing.
func (h *Health) Await(what string) { h.waitsFor.Store(&what) }

// Watch has the process killed when one of the checks fails.
func (h *Health) Watch(checks ...func() error) { h.checks.Store(&checks) }

// Live returns what a restart repairs.
func (h *Health) Live() error {
	if err := h.lease.Check(nil); err != nil {
		return err
	}
	var errs []error
	if checks := h.checks.Load(); checks != nil {
		for _, check := range *checks {
			errs = append(errs, check())
		}
	}
	return errors.Join(errs...)
}

// Ready returns what the process waits for.
func (h *Health) Ready() error {
	if h.stops.Load() {
		return errors.New("stopping")
	}
	if what := *h.waitsFor.Load(); what != "" {
		return errors.New("waiting for " + what)
	}
	return nil
}
