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

// forUser says whether an error is for the user of the object to mend, and in
// which words of the API server. A namespace that is being deleted takes its
// objects with it: there is nothing to tell.
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

// atOnce bounds how many calls one sync has under way. As test/bench had it on two cores: with
// 64, the last of 2,000 replicas existed a fifth later than a Deployment's; with 256 they
// were Ready no sooner than those: scheduler and kubelets had too little of the cores. A variable,
// because the model check needs a sync to be a function of the answers to its calls.
var atOnce = 100

// mostRefused is how many items in one go the API server may refuse before no other
// is tried: what refuses one may be about that one alone (its name, its claim), and
// what refuses so many mostly refuses them all.
const mostRefused = 10

// forEach calls do for every item, atOnce at a time. It starts no further one after
// an error, but for refusals, up to mostRefused. It returns the items that were done,
// and the errors of the others that had started, in the order of the items, so that
// what a user is told does not change with the weather.
func forEach[T any](ctx context.Context, items []T, do func(context.Context, T) error) (done []T, err error) {
	return forEachUntil(ctx, atOnce, items, afterRefusals(), do)
}

// forEachChanged is forEach that goes on after a stale one: where each item has a
// precondition of its own, that one of them changed says nothing of the others.
func forEachChanged[T any](ctx context.Context, items []T, do func(context.Context, T) error) (done []T, err error) {
	ends := afterRefusals()
	return forEachUntil(ctx, atOnce, items, func(err error) bool { return !errors.Is(err, ErrStale) && ends(err) }, do)
}

// afterRefusals ends at the first error that is no refusal, or after mostRefused.
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

// PanicError is a panic that was made an error of the one object that brought it
// about: one bad object harms no other.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// contain makes a panic an error of this one item: in a goroutine of its own it
// would end the process.
func contain[T any](ctx context.Context, item T, do func(context.Context, T) error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = &PanicError{Value: reason, Stack: debug.Stack()}
		}
	}()
	return do(ctx, item)
}
