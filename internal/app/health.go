package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// leaseTolerance is how long a leader may continue after its lease has expired before it
// counts as dead. It should have ended by itself.
const leaseTolerance = 20 * time.Second

// Health answers the probes.
//
//	live    no sync is stuck, etcd was not restored to an older state, and no leader
//	        outlives its lease: a restart fixes these
//	ready   the caches were filled once, the leader was read once from the lease, and the
//	        process is not stopping. This does not depend on leading: a standby can take
//	        over, and a rolling update stops the leader only when its successor is ready.
type Health struct {
	stops    atomic.Bool
	waitsFor atomic.Pointer[string]
	checks   atomic.Pointer[[]func() error]
	lease    *leaderelection.HealthzAdaptor
}

// NewHealth returns the Health of a process that stops when ctx ends.
func NewHealth(ctx context.Context) *Health {
	h := &Health{lease: leaderelection.NewLeaderHealthzAdaptor(leaseTolerance)}
	h.Await("its start")
	context.AfterFunc(ctx, func() { h.stops.Store(true) })
	return h
}

// Await sets the thing that the process waits for; "" for nothing.
func (h *Health) Await(what string) { h.waitsFor.Store(&what) }

// Watch makes the liveness probe fail when one of the checks fails.
func (h *Health) Watch(checks ...func() error) { h.checks.Store(&checks) }

// Live returns the problems that a restart fixes.
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

// Ready returns an error that names the thing that the process waits for.
func (h *Health) Ready() error {
	if h.stops.Load() {
		return errors.New("stopping")
	}
	if what := *h.waitsFor.Load(); what != "" {
		return errors.New("waiting for " + what)
	}
	return nil
}
