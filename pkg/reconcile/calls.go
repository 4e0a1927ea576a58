package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// forUser says whether the user of the object must fix an error, and returns the message
// of the API server. In a namespace that is being deleted there is nothing to report: its
// objects are deleted with it.
func forUser(err error) (message string, mendable bool) {
	status := apierrors.APIStatus(nil)
	if errors.Is(err, ErrStale) || !errors.As(err, &status) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return "", false
	}
	if code := status.Status().Code; code < 400 || code >= 500 || apierrors.IsTooManyRequests(err) {
		return "", false
	}
	return status.Status().Message, true
}

// atOnce limits the concurrent calls of one sync. test/bench measured it on two cores.
// With 64, the last of 2,000 replicas existed a fifth later than a Deployment's. With
// 256, the replicas were Ready no sooner, because scheduler and kubelets got too little
// CPU. It is a variable because the model check needs a sync to be a function of the
// answers to its calls.
var atOnce = 100

// mostRefused is how many items the API server may refuse in one go before no other is
// tried. A refusal may be about one item (its name, its PVC), but so many usually mean
// that all are refused.
const mostRefused = 10

// forEach calls do for every item, atOnce at a time. It starts no further call after an
// error, but allows up to mostRefused refusals. It returns the items that succeeded, and
// the errors of the others that had started. Both are in the order of the items, so
// messages to users are stable.
func forEach[T any](ctx context.Context, items []T, do func(context.Context, T) error) (done []T, err error) {
	return forEachUntil(ctx, atOnce, items, afterRefusals(), do)
}

// forEachChanged is forEach, but continues after a stale item. Each item has its own
// precondition, so a change to one says nothing about the others.
func forEachChanged[T any](ctx context.Context, items []T, do func(context.Context, T) error) (done []T, err error) {
	ends := afterRefusals()
	return forEachUntil(ctx, atOnce, items, func(err error) bool { return !errors.Is(err, ErrStale) && ends(err) }, do)
}

// afterRefusals ends at the first error that is not a refusal, or after mostRefused.
func afterRefusals() func(error) bool {
	var refused atomic.Int32
	return func(err error) bool {
		_, refusal := forUser(err)
		return !refusal || refused.Add(1) >= mostRefused
	}
}

func forEachUntil[T any](ctx context.Context, atOnce int, items []T, ends func(error) bool, do func(context.Context, T) error) (done []T, err error) {
	var (
		errs    = make([]error, len(items))
		failed  atomic.Bool
		running sync.WaitGroup
		slots   = make(chan struct{}, atOnce)
		started = 0
	)
	for i, item := range items {
		slots <- struct{}{}
		if failed.Load() {
			break
		}
		started++
		running.Go(func() {
			defer func() { <-slots }()
			if errs[i] = contain(ctx, item, do); errs[i] != nil && ends(errs[i]) {
				failed.Store(true)
			}
		})
	}
	running.Wait()
	for i, item := range items[:started] {
		if errs[i] == nil {
			done = append(done, item)
		}
	}
	return done, errors.Join(errs...)
}

// PanicError is a panic in the sync of one object, turned into an error. So one bad object
// affects no other.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// contain turns a panic into an error of this one item. In its own goroutine a panic
// would end the process.
func contain[T any](ctx context.Context, item T, do func(context.Context, T) error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = &PanicError{Value: reason, Stack: debug.Stack()}
		}
	}()
	return do(ctx, item)
}
