package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pod2/pod2/pkg/reconcile"
)

// A key named again while it is synced waits for that sync, and is synced once
// more however often it was named; other keys do not wait.
func TestOneKeyIsNeverSyncedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newJournal()
		c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.note("%s begins", key)
			time.Sleep(time.Minute)
			log.note("%s ends", key)
			return reconcile.Result{}, nil
		}), 8)
		c.queue.Add(blue)
		for range 10 {
			time.Sleep(time.Second)
			c.queue.Add(blue)
		}
		c.queue.Add(green)
		time.Sleep(time.Hour)
		log.expect(t,
			"0s Network default/blue begins",
			"10s Network default/green begins",
			"1m0s Network default/blue ends",
			"1m0s Network default/blue begins",
			"1m10s Network default/green ends",
			"2m0s Network default/blue ends")
		stop()
	})
}

func TestStop(t *testing.T) {
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
				log := newJournal()
				c, stop := start(t, syncFunc(func(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
					log.note("%s begins", key)
					select {
					case <-time.After(test.takes):
					case <-ctx.Done():
					}
					log.note("%s ends: %v", key, ctx.Err())
					return reconcile.Result{}, ctx.Err()
				}), 1)
				c.queue.Add(blue)
				time.Sleep(10 * time.Second)
				c.queue.Add(blue)  // waits for its own sync to end,
				c.queue.Add(green) // and this for a worker: neither may begin any more
				log.note("stopping")
				stop()
				log.note("stopped")
				log.expect(t, test.want...)
			})
		})
	}
}

// When the lease is lost there is no grace: another leader may be at work.
func TestSyncsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newJournal()
		c, err := NewController(t.Context(), syncFunc(func(ctx context.Context, _ reconcile.Key) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, ctx.Err()
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []reconcile.Key{blue, green} {
			c.queue.Add(key)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Run(ctx, ctx, 2); err != nil {
			t.Error(err)
		}
		log.note("stopped")
		log.expect(t, "1m0s stopped")
	})
}
