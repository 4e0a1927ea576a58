package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/pod2/pod2/pkg/reconcile"
)

// A sync that waits for what does not come gets the process killed, others that
// only take their time do not.
func TestStuckSyncFailsLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newJournal()
		h := newHealth(t.Context())
		c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			if key == blue {
				time.Sleep(20 * time.Minute)
			}
			return reconcile.Result{}, nil
		}), 8)
		h.watch(c.Check)
		c.queue.Add(blue)
		for range 5 {
			c.queue.Add(green)
			time.Sleep(5*time.Minute - time.Second)
			log.note("live: %v", h.live())
			time.Sleep(2 * time.Second)
		}
		log.expect(t,
			"4m59s live: <nil>",
			"10m0s live: <nil>",
			"15m1s live: the sync of Network default/blue is under way for 15m1s, and no sync should take longer than 15m0s",
			"20m2s live: <nil>",
			"25m3s live: <nil>")
		stop()
	})
}

// What the reconciler finds that only a restart repairs gets the process killed, too.
func TestEveryCheckFailsLiveness(t *testing.T) {
	h := newHealth(t.Context())
	h.watch(func() error { return nil }, func() error { return errors.New("resourceVersions went back") })
	if got := fmt.Sprint(h.live()); got != "resourceVersions went back" {
		t.Errorf("live: %s", got)
	}
}

// A leader whose lease has run out, and whose syncs do not end, is dead.
func TestLeaderThatOutlivesItsLeaseFailsLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewSimpleClientset()
		var refuse atomic.Bool
		kube.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return refuse.Load(), nil, errors.New("no connection")
		})
		election := newOptions().election
		lock, err := resourcelock.New(election.ResourceLock, election.ResourceNamespace, election.ResourceName,
			kube.CoreV1(), kube.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
		if err != nil {
			t.Fatal(err)
		}
		log := newJournal()
		h := newHealth(t.Context())
		done := make(chan error)
		go func() {
			done <- lead(t.Context(), lock, election, h, func(context.Context, context.Context) error {
				time.Sleep(time.Hour)
				return nil
			})
		}()
		time.Sleep(time.Minute)
		log.note("live, leading: %v", h.live())
		refuse.Store(true)
		time.Sleep(30 * time.Second)
		log.note("live, lease lost: %v", h.live())
		time.Sleep(30 * time.Second)
		log.note("live, and long expired: %v", h.live())
		log.expect(t,
			"1m0s live, leading: <nil>",
			"1m30s live, lease lost: <nil>",
			"2m0s live, and long expired: failed election to renew leadership on lease pod2-controller")
		if err := <-done; err == nil {
			t.Error("lead returned no error")
		}
	})
}

func TestReadyUntilItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		log := newJournal()
		h := newHealth(ctx)
		log.note("%v", h.ready())
		h.await("the caches")
		log.note("%v", h.ready())
		h.await("")
		log.note("%v", h.ready())
		stop()
		synctest.Wait()
		log.note("%v", h.ready())
		log.expect(t, "0s waiting for its start", "0s waiting for the caches", "0s <nil>", "0s stopping")
	})
}
