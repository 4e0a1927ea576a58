package app

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

	"github.com/pod2/pod2/test/journal"
)

// A problem that the reconciler finds and only a restart fixes fails the liveness probe too.
func TestEveryCheckFailsLiveness(t *testing.T) {
	h := NewHealth(t.Context())
	h.Watch(func() error { return nil }, func() error { return errors.New("resourceVersions went back") })
	if got := fmt.Sprint(h.Live()); got != "resourceVersions went back" {
		t.Errorf("live: %s", got)
	}
}

// A leader is dead if its lease has expired and its syncs do not end.
func TestLeaderThatOutlivesItsLeaseFailsLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewSimpleClientset()
		var refuse atomic.Bool
		kube.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return refuse.Load(), nil, errors.New("no connection")
		})
		election := NewOptions().Election
		lock, err := resourcelock.New(election.ResourceLock, election.ResourceNamespace, election.ResourceName,
			kube.CoreV1(), kube.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
		if err != nil {
			t.Fatal(err)
		}
		log := journal.New()
		h := NewHealth(t.Context())
		done := make(chan error)
		go func() {
			done <- lead(t.Context(), lock, election, h, func(context.Context, context.Context) error {
				time.Sleep(time.Hour)
				return nil
			})
		}()
		time.Sleep(time.Minute)
		log.Note("live, leading: %v", h.Live())
		refuse.Store(true)
		time.Sleep(30 * time.Second)
		log.Note("live, lease lost: %v", h.Live())
		time.Sleep(30 * time.Second)
		log.Note("live, and long expired: %v", h.Live())
		log.Expect(t,
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
		log := journal.New()
		h := NewHealth(ctx)
		log.Note("%v", h.Ready())
		h.Await("the caches")
		log.Note("%v", h.Ready())
		h.Await("")
		log.Note("%v", h.Ready())
		stop()
		synctest.Wait()
		log.Note("%v", h.Ready())
		log.Expect(t, "0s waiting for its start", "0s waiting for the caches", "0s <nil>", "0s stopping")
	})
}
