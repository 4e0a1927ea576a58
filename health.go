package main

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

// compareVersionsEvery is how often the API server is asked for its resourceVersion, by a list of
// one Network. An etcd that was restored may write as many versions as the restore took back
// before it is noticed: the sooner we ask, the smaller a restore we notice.
const compareVersionsEvery = 30 * time.Second

// health answers the probes.
//
//	live    no sync is stuck, etcd was not restored to an older state, and no leader
//	        outlives its lease: what a restart repairs
//	ready   the caches were filled once, the lease said once who leads, and the process
//	        does not stop. Leading or not: a standby can take over, and a rolling update
//	        ends the leader only when its successor is ready.
type health struct {
	stops    atomic.Bool
	waitsFor atomic.Pointer[string]
	checks   atomic.Pointer[[]func() error]
	lease    *leaderelection.HealthzAdaptor
}

// newHealth is of a process that stops when ctx ends.
func newHealth(ctx context.Context) *health {
	h := &health{lease: leaderelection.NewLeaderHealthzAdaptor(leaseTolerance)}
	h.await("its start")
	context.AfterFunc(ctx, func() { h.stops.Store(true) })
	return h
}

// await says what is not there yet; "" for nothing.
func (h *health) await(what string) { h.waitsFor.Store(&what) }

// watch has the process killed when one of the checks fails.
func (h *health) watch(checks ...func() error) { h.checks.Store(&checks) }

func (h *health) live() error {
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

func (h *health) ready() error {
	if h.stops.Load() {
		return errors.New("stopping")
	}
	if what := *h.waitsFor.Load(); what != "" {
		return errors.New("waiting for " + what)
	}
	return nil
}
