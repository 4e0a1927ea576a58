package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pod2/pod2/pkg/fenced"
)

var (
	podResource = schema.GroupResource{Resource: "pods"}
	errConflict = apierrors.NewConflict(podResource, "web-0", errors.New("changed"))
)

func invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web-0", errs)
}

// Which errors mean "look again", and which ones a user must fix.
func TestStale(t *testing.T) {
	uid := field.NewPath("metadata", "uid")
	for _, row := range []struct {
		name  string
		err   error
		stale bool
	}{
		{"another resourceVersion, or another UID of a deletion", errConflict, true},
		{"wrapped", fmt.Errorf("update: %w", errConflict), true},
		{"gone", apierrors.NewNotFound(podResource, "web-0"), true},
		{"already exists", apierrors.NewAlreadyExists(podResource, "web-0"), true},
		{"a patch for another UID", invalid(field.Invalid(uid, "other", "field is immutable")), true},
		{"a patch for another UID, and more", invalid(field.Required(field.NewPath("spec"), ""), field.Invalid(uid, "other", "field is immutable")), true},
		{"an invalid field", invalid(field.Invalid(field.NewPath("spec", "hostname"), "-", "no DNS label")), false},
		{"invalid without a cause", invalid(), false},
		{"no UID given", invalid(field.Required(uid, "")), false},
		{"invalid without details", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Code: 422}}, false},
		{"a refusal for another reason, with that cause", refusal(403, metav1.StatusReasonForbidden, "", metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"}), false},
		{"a quota", apierrors.NewForbidden(podResource, "web-0", errors.New("exceeded quota")), false},
		{"a broken server", apierrors.NewInternalError(errors.New("etcd")), false},
		{"no answer", context.DeadlineExceeded, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := errors.Is(fenced.Stale(row.err), ErrStale); got != row.stale {
				t.Errorf("stale is %t, want %t: %v", got, row.stale, row.err)
			}
		})
	}
}

func TestStaleOfNoErrorIsNone(t *testing.T) {
	if err := fenced.Stale(nil); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestStaleKeepsItsCause(t *testing.T) {
	err := fmt.Errorf("update Network: %w", fenced.Stale(errConflict))
	if !apierrors.IsConflict(err) {
		t.Errorf("no longer a conflict: %v", err)
	}
}

func TestForEachReturnsErrorsInTheOrderOfTheItems(t *testing.T) {
	var started sync.WaitGroup
	started.Add(4)
	last := make(chan struct{})
	done, err := forEach(t.Context(), []int{0, 1, 2, 3}, func(_ context.Context, i int) error {
		started.Done()
		started.Wait()
		if i == 3 { // the first to fail
			close(last)
		}
		<-last
		if i == 1 {
			return nil
		}
		return fmt.Errorf("item %d", i)
	})
	same(t, fmt.Sprint(done, err), "[1] item 0\nitem 2\nitem 3")
}

func TestForEachHasAtMostSoManyUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		_, err := forEach(t.Context(), make([]int, atOnce+50), func(context.Context, int) error {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return nil
		})
		if err != nil || int(most.Load()) != atOnce {
			t.Errorf("%d concurrent calls, error %v; want %d", most.Load(), err, atOnce)
		}
	})
}

func TestForEachStartsNoFurtherOneAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var started atomic.Int32
		_, _ = forEach(t.Context(), make([]int, atOnce+50), func(context.Context, int) error {
			started.Add(1)
			time.Sleep(time.Second)
			return errors.New("no answer")
		})
		if n := started.Load(); int(n) != atOnce {
			t.Errorf("%d calls were started, want the %d from before the first error", n, atOnce)
		}
	})
}

func TestForEachGoesOnAfterARefusal(t *testing.T) {
	oneAtOnce(t)
	started := 0
	done, err := forEach(t.Context(), make([]int, 50), func(context.Context, int) error {
		if started++; started%2 == 0 {
			return quota
		}
		return nil
	})
	if len(done) != mostRefused || started != 2*mostRefused || !errors.Is(err, quota) {
		t.Errorf("%d done, %d started, error %v", len(done), started, err)
	}
}

func TestForEachReturnsAPanic(t *testing.T) {
	done, err := forEach(t.Context(), []int{0, 1}, func(_ context.Context, i int) error {
		if i == 1 {
			panic("broken")
		}
		return nil
	})
	var panicked *PanicError
	if !errors.As(err, &panicked) || panicked.Value != "broken" || !strings.Contains(string(panicked.Stack), "TestForEachReturnsAPanic") {
		t.Errorf("got %v, %v", done, err)
	}
}

func TestForEachFinishesWhatItStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished atomic.Int32
		_, _ = forEach(t.Context(), []time.Duration{1, 2, 3}, func(_ context.Context, seconds time.Duration) error {
			time.Sleep(seconds * time.Second)
			finished.Add(1)
			if seconds == 1 {
				return errConflict
			}
			return nil
		})
		if n := finished.Load(); n != 3 {
			t.Errorf("it returned after only %d of 3 had finished", n)
		}
	})
}
