package reconcile

import (
	"context"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2/dns"
)

// namesEvery is how long the names of a Pod2's replicas stay as they are once they were
// written. When 2,000 replicas become ready within seconds, each slice of them is
// written once a second, not a hundred times; a change that comes alone is written
// at once.
const namesEvery = time.Second

func (r *Reconciler) syncEndpoints(ctx context.Context, key Key) (Result, error) {
	if left := r.names.left(key); left > 0 {
		return Result{RequeueAfter: left}, nil
	}
	state, again, err := r.observeEndpoints(key)
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	plan := dns.Diff(state)
	if err := r.applyEndpoints(ctx, key, state, plan); err != nil {
		return Result{}, err
	}
	// What follows the write of a Service does not wait.
	if plan.WritesSlices() {
		r.names.begin(key)
	}
	return Result{RequeueAfter: again}, nil
}

// applyEndpoints writes the plan in the order of its fields. What failed of one Service
// keeps no other from being written.
func (r *Reconciler) applyEndpoints(ctx context.Context, key Key, state dns.State, plan dns.Plan) error {
	steps := r.steps(key)
	steps.do("FailedDelete", func() error {
		_, err := forEach(ctx, plan.Withdraw, deleting(key, r.slices))
		return err
	})
	if state.Pod2 == nil {
		return steps.err()
	}
	confirmed := steps.do("FailedCreate", func() error {
		if plan.NeedsOwner() {
			if err := r.confirmPod2(ctx, key, state.Pod2); err != nil {
				return err
			}
		}
		return r.confirmOver(ctx, key, plan.ConfirmGone)
	})
	if confirmed {
		steps.do("FailedDelete", func() error { return r.deleteNames(ctx, key, plan) })
		for _, writes := range plan.Services {
			reason := ""
			steps.doFor(&reason, func() (err error) {
				reason, err = r.writeService(ctx, key, writes)
				return err
			})
		}
	}
	status, events := plan.Status, plan.Events
	if steps.failed() {
		status, events = dns.Observed(state) // the plan's may tell of what was not done
		if len(steps.told) > 0 {
			status, events = dns.WithFailures(state, steps.told)
		}
	}
	if status != nil && !steps.do("", func() error { return r.updatePod2Names(ctx, key, state.Pod2, *status) }) {
		return steps.err()
	}
	r.record(state.Pod2, events)
	return steps.err()
}

// updatePod2Names writes the status of a Pod2 for the key of its names.
func (r *Reconciler) updatePod2Names(ctx context.Context, key Key, current *v1.Pod2, status v1.Pod2Status) error {
	next := current.DeepCopy()
	next.Status = status
	updated, err := rewriteStatus(ctx, r.clients.Sample.SamplecrdV1().Pod2s(key.Namespace), current, next)
	if err != nil {
		return fmt.Errorf("update the status for %s: %w", key, stale(err))
	}
	r.written.wrote(key, pod2sResource, updated.ResourceVersion)
	return nil
}

func (r *Reconciler) deleteNames(ctx context.Context, key Key, plan dns.Plan) error {
	if _, err := forEach(ctx, plan.DeleteSlices, deleting(key, r.slices)); err != nil {
		return err
	}
	_, err := forEach(ctx, plan.DeleteServices, deleting(key, r.services))
	return err
}

// writeService writes a Service, and then its slices; the reason is that of the
// condition, should it fail.
func (r *Reconciler) writeService(ctx context.Context, key Key, w dns.ServiceWrites) (reason string, err error) {
	if w.Create != nil {
		if err := r.services.create(ctx, key, w.Create); err != nil {
			return "FailedCreate", err
		}
	}
	if w.Update != nil {
		if err := r.services.update(ctx, key, *w.Update); err != nil {
			return "FailedUpdate", err
		}
	}
	_, err = forEach(ctx, w.CreateSlices, func(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
		return r.slices.create(ctx, key, slice)
	})
	if err != nil {
		return "FailedCreate", err
	}
	_, err = forEach(ctx, w.UpdateSlices, func(ctx context.Context, u plan.Update[*discoveryv1.EndpointSlice]) error {
		return r.slices.update(ctx, key, u)
	})
	return "FailedUpdate", err
}
