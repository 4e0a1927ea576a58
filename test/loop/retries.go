package loop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/reconcile"
	"github.com/pod2/pod2/test/journal"
)

// FailedKeyIsRetriedEverMoreSlowlyUntilItSucceeds checks the delays after each kind of failure.
func (n New) FailedKeyIsRetriedEverMoreSlowlyUntilItSucceeds(t *testing.T) {
	conflict := apierrors.NewConflict(samplecrdv1.Resource("networks"), "blue", errors.New("changed"))
	for _, failure := range []error{errors.New("refused"), conflict, fmt.Errorf("sync: %w", reconcile.ErrStale)} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.New()
			failures := 5
			c, stop := n.start(t, sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
				log.Note("%s", key)
				if failures--; failures >= 0 {
					return reconcile.Result{RequeueAfter: time.Nanosecond}, failure // the result is ignored if there is an error
				}
				return reconcile.Result{}, nil
			}), 2)
			c.Queue.Add(blue)
			time.Sleep(time.Hour)
			log.Expect(t, "0s Network default/blue", "5ms Network default/blue", "15ms Network default/blue",
				"35ms Network default/blue", "75ms Network default/blue", "155ms Network default/blue")
			if n := c.Queue.NumRequeues(blue); n != 0 {
				t.Errorf("%d failures remembered after a success, want none", n)
			}
			stop()
		})
	}
}

// RetriesAreAtMostAMinuteApartAndOfAnOldViewAThirdOfThat checks the delays after each kind of failure.
func (n New) RetriesAreAtMostAMinuteApartAndOfAnOldViewAThirdOfThat(t *testing.T) {
	for failure, want := range map[error]time.Duration{
		errors.New("refused"):                      time.Minute,
		fmt.Errorf("sync: %w", reconcile.ErrStale): 20 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			var times []time.Time
			c, stop := n.start(t, sync(func(context.Context, reconcile.Key) (reconcile.Result, error) {
				times = append(times, time.Now())
				return reconcile.Result{}, failure
			}), 1)
			c.Queue.Add(blue)
			time.Sleep(time.Hour)
			stop()
			last := len(times) - 1
			if gap := times[last].Sub(times[last-1]); gap != want {
				t.Errorf("after an hour of %q a key is retried every %s, want %s", failure, gap, want)
			}
		})
	}
}

// Rest keeps the key from being synced, and no other. The events of that time share one sync.
func (n New) Rest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		c, stop := n.start(t, sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
			return reconcile.Result{Rest: time.Minute}, nil
		}), 2)
		c.Queue.Add(blue)
		for range 5 {
			time.Sleep(10 * time.Second)
			c.Queue.Add(blue)
		}
		c.Queue.Add(green)
		time.Sleep(time.Hour)
		c.Queue.Add(blue)
		time.Sleep(time.Hour)
		log.Expect(t, "0s Network default/blue", "50s Network default/green", "1m0s Network default/blue", "1h0m50s Network default/blue")
		stop()
	})
}

// RequeueAfter syncs the key again, and only then.
func (n New) RequeueAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		after := []time.Duration{90 * time.Second, time.Hour, 0}
		c, stop := n.start(t, sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
			result := reconcile.Result{RequeueAfter: after[0]}
			after = after[1:]
			return result, nil
		}), 2)
		c.Queue.Add(blue)
		time.Sleep(24 * time.Hour)
		log.Expect(t, "0s Network default/blue", "1m30s Network default/blue", "1h1m30s Network default/blue")
		stop()
	})
}
