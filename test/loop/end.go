package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/reconcile"
	"github.com/pod2/pod2/test/journal"
)

// Stop lets running syncs finish within a grace, and begins no other.
func (n New) Stop(t *testing.T) {
	for _, test := range []struct {
		name  string
		takes time.Duration
		want  []string
	}{
		{"lets a sync finish", 15 * time.Second, []string{
			"0s Network default/blue begins",
			"10s stopping",
			"15s Network default/blue ends: <nil>",
			"15s stopped"}},
		{"cuts it short after the grace", time.Hour, []string{
			"0s Network default/blue begins",
			"10s stopping",
			"30s Network default/blue ends: context canceled",
			"30s stopped"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := journal.New()
				c, stop := n.start(t, sync(func(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
					log.Note("%s begins", key)
					select {
					case <-time.After(test.takes):
					case <-ctx.Done():
					}
					log.Note("%s ends: %v", key, ctx.Err())
					return reconcile.Result{}, ctx.Err()
				}), 1)
				c.Queue.Add(blue)
				time.Sleep(10 * time.Second)
				c.Queue.Add(blue)  // waits for its own sync to end,
				c.Queue.Add(green) // and this one for a worker: neither may begin any more
				log.Note("stopping")
				stop()
				log.Note("stopped")
				log.Expect(t, test.want...)
			})
		})
	}
}

// SyncsEndWithTheirContext checks that a lost lease ends syncs at once, because another leader may be working.
func (n New) SyncsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		c := n(sync(func(ctx context.Context, _ reconcile.Key) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, ctx.Err()
		}), nil)
		for _, key := range []reconcile.Key{blue, green} {
			c.Queue.Add(key)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Run(ctx, ctx, 2); err != nil {
			t.Error(err)
		}
		log.Note("stopped")
		log.Expect(t, "1m0s stopped")
	})
}

// StuckSync is reported by Check: a sync that runs for more than syncLimit, and no shorter one.
func (n New) StuckSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		c, stop := n.start(t, sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			if key == blue {
				time.Sleep(20 * time.Minute)
			}
			return reconcile.Result{}, nil
		}), 8)
		c.Queue.Add(blue)
		for range 5 {
			c.Queue.Add(green)
			time.Sleep(5*time.Minute - time.Second)
			log.Note("%v", c.Check())
			time.Sleep(2 * time.Second)
		}
		log.Expect(t,
			"4m59s <nil>",
			"10m0s <nil>",
			"15m1s sync of Network default/blue has been running for 15m1s (limit 15m0s)",
			"20m2s <nil>",
			"25m3s <nil>")
		stop()
	})
}

// PanicHarmsNoOtherKey checks that the key is retried like one that failed.
func (n New) PanicHarmsNoOtherKey(t *testing.T) {
	before := panics(t)
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		c, stop := n.start(t, sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
			if key == blue {
				var nothing *samplecrdv1.Network
				_ = nothing.Name
			}
			return reconcile.Result{}, nil
		}), 1)
		c.Queue.Add(blue)
		c.Queue.Add(green)
		time.Sleep(20 * time.Millisecond)
		log.Expect(t, "0s Network default/blue", "0s Network default/green", "5ms Network default/blue", "15ms Network default/blue")
		stop()
	})
	if got := panics(t) - before; got != 3 {
		t.Errorf("pod2_sync_total counted %v panics, want 3", got)
	}
}

// APanicThatSyncReturnsCountsAsOne checks that one of several concurrent calls, in its own goroutine, panicked. It arrives
// as an error.
func (n New) APanicThatSyncReturnsCountsAsOne(t *testing.T) {
	before := panics(t)
	synctest.Test(t, func(t *testing.T) {
		c, stop := n.start(t, sync(func(context.Context, reconcile.Key) (reconcile.Result, error) {
			return reconcile.Result{}, fmt.Errorf("create pods: %w", errors.Join(reconcile.ErrStale, &reconcile.PanicError{Value: "x"}))
		}), 1)
		c.Queue.Add(blue)
		time.Sleep(time.Millisecond)
		stop()
	})
	if got := panics(t) - before; got != 1 {
		t.Errorf("pod2_sync_total counted %v panics, want 1", got)
	}
}

func panics(t *testing.T) (sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "pod2_sync_total" && strings.Contains(metric.String(), `value:"panic"`) {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}
