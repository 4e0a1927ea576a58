package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/pkg/endpoints"
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
	if state.Pod2 == nil {
		return Result{}, nil
	}
	plan := endpoints.Diff(state)
	if err := r.applyEndpoints(ctx, key, state, plan); err != nil {
		return Result{}, err
	}
	if plan.WritesNames() {
		r.names.begin(key)
	}
	return Result{RequeueAfter: again}, nil
}

// applyEndpoints writes the plan in the order of its fields. What stopped it on
// the way, if it is for the user to mend, is what the status says.
func (r *Reconciler) applyEndpoints(ctx context.Context, key Key, state endpoints.State, plan endpoints.Plan) error {
	if plan.NeedsOwner() {
		if err := r.confirmPod2(ctx, key, state.Pod2); err != nil {
			return err
		}
	}
	if err := r.confirmOver(ctx, key, plan.ConfirmGone); err != nil {
		return err
	}
	steps := []func() (reason string, err error){func() (string, error) { return "FailedDelete", r.deleteNames(ctx, key, plan) }}
	for _, writes := range plan.Services {
		steps = append(steps, func() (string, error) { return r.writeService(ctx, key, writes) })
	}
	var failures []endpoints.Failure
	var errs []error
	for _, step := range steps {
		reason, err := step()
		if err == nil {
			continue
		}
		message, mendable := forUser(err)
		if !mendable {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, err)
		failures = append(failures, endpoints.Failure{Reason: reason, Message: message})
	}
	failure := errors.Join(errs...)
	status, events := plan.Status, plan.Events
	if failure != nil {
		status, events = endpoints.WithFailures(state, failures)
	}
	if status != nil {
		next := state.Pod2.DeepCopy()
		next.Status = *status
		updated, err := r.clients.Sample.SamplecrdV1().Pod2s(key.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{})
		if err != nil {
			return errors.Join(failure, fmt.Errorf("update the status for %s: %w", key, stale(err)))
		}
		r.written.wrote(key, pod2sResource, updated.ResourceVersion)
	}
	for _, e := range events {
		r.recorder.Event(state.Pod2, e.Type, e.Reason, e.Message)
	}
	return failure
}

func (r *Reconciler) deleteNames(ctx context.Context, key Key, plan endpoints.Plan) error {
	if _, err := forEach(ctx, plan.DeleteSlices, deleting(key, r.slices)); err != nil {
		return err
	}
	_, err := forEach(ctx, plan.DeleteServices, deleting(key, r.services))
	return err
}

// writeService writes a Service, and then its slices; the reason is that of the
// condition, should it fail.
func (r *Reconciler) writeService(ctx context.Context, key Key, w endpoints.ServiceWrites) (reason string, err error) {
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
	_, err = forEach(ctx, w.UpdateSlices, func(ctx context.Context, u endpoints.Update[*discoveryv1.EndpointSlice]) error {
		return r.slices.update(ctx, key, u)
	})
	return "FailedUpdate", err
}
