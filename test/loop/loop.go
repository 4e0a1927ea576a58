// Package loop has the tests of the root's controller.go. It is given the Controller by a function,
// because nobody can import package main.
package loop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	samplefake "github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions"
	"github.com/pod2/pod2/pkg/reconcile"
	"github.com/pod2/pod2/test/journal"
)

// Syncer is called for each key.
type Syncer interface {
	Sync(ctx context.Context, key reconcile.Key) (reconcile.Result, error)
}

// Controller under test, and its queue.
type Controller struct {
	Run   func(ctx, syncs context.Context, workers int) error
	Check func() error
	Queue workqueue.TypedRateLimitingInterface[reconcile.Key]
}

// New makes a Controller that is not running.
type New func(syncer Syncer, watches []reconcile.Watch) Controller

// sync is a Syncer.
type sync func(ctx context.Context, key reconcile.Key) (reconcile.Result, error)

func (f sync) Sync(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
	return f(ctx, key)
}

var (
	blue  = reconcile.Key{Kind: "Network", Namespace: "default", Name: "blue"}
	green = reconcile.Key{Kind: "Network", Namespace: "default", Name: "green"}
)

func keys(obj any) []reconcile.Key {
	network := obj.(*samplecrdv1.Network)
	return []reconcile.Key{{Kind: "Network", Namespace: network.Namespace, Name: network.Name}}
}

// start runs a controller without informers. It returns a function that stops it and
// waits for its end. Use it in a synctest bubble.
func (n New) start(t *testing.T, syncer Syncer, workers int) (c Controller, stop func()) {
	t.Helper()
	c = n(syncer, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx, context.Background(), workers) }()
	return c, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// InformersReachSync checks that every object is synced once at the start, and again at each resync. A resync leaves no
// trace: no backoff, no further sync.
func (n New) InformersReachSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := samplefake.NewSimpleClientset(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}})
		factory := sampleinformers.NewSharedInformerFactory(client, time.Hour)
		informer := factory.Samplecrd().V1().Networks().Informer()
		log := journal.New()
		c := n(sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
			return reconcile.Result{}, nil
		}), []reconcile.Watch{{Informer: informer, Keys: keys}})
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		done := make(chan error)
		go func() { done <- c.Run(ctx, ctx, 2) }()

		time.Sleep(2*time.Hour + time.Minute)
		log.Expect(t, "0s Network default/blue", "1h0m0s Network default/blue", "2h0m0s Network default/blue")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
}

// AStandbyQueuesNothing checks that the queue of a controller that does not run stays empty, and that Run then syncs all that exist.
func (n New) AStandbyQueuesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uid := types.UID("uid-of-blue")
		client := samplefake.NewSimpleClientset(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: uid}},
			&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "green"}})
		factory := sampleinformers.NewSharedInformerFactory(client, 0)
		log := journal.New()
		c := n(sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
			return reconcile.Result{}, nil
		}), []reconcile.Watch{{Informer: factory.Samplecrd().V1().Networks().Informer(), Keys: keys}})
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		synctest.Wait() // a fake watch has no history
		if err := client.SamplecrdV1().Networks("default").Delete(ctx, "blue", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		log.Note("%d in the queue", c.Queue.Len())
		done := make(chan error)
		go func() { done <- c.Run(ctx, ctx, 1) }()
		time.Sleep(time.Minute)
		log.Expect(t, "1m0s 0 in the queue", "1m0s Network default/green")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
}

// NothingIsSyncedBeforeTheCachesAreFull checks that no sync sees an empty cache. Every replica would look absent there.
func (n New) NothingIsSyncedBeforeTheCachesAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informer := sampleinformers.NewSharedInformerFactory(samplefake.NewSimpleClientset(), 0).Samplecrd().V1().Networks().Informer() // never started
		log := journal.New()
		c := n(sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
			return reconcile.Result{}, nil
		}), []reconcile.Watch{{Informer: informer, Keys: keys}})
		c.Queue.Add(blue)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.Run(ctx, ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v, want the end of its context", err)
		}
		log.Expect(t)
	})
}

// OneKeyIsNeverSyncedTwiceAtOnce checks that if a key is named again during its sync, it waits for that sync and is synced once
// more, for any number of events. Other keys do not wait.
func (n New) OneKeyIsNeverSyncedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		c, stop := n.start(t, sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s begins", key)
			time.Sleep(time.Minute)
			log.Note("%s ends", key)
			return reconcile.Result{}, nil
		}), 8)
		c.Queue.Add(blue)
		for range 10 {
			time.Sleep(time.Second)
			c.Queue.Add(blue)
		}
		c.Queue.Add(green)
		time.Sleep(time.Hour)
		log.Expect(t,
			"0s Network default/blue begins",
			"10s Network default/green begins",
			"1m0s Network default/blue ends",
			"1m0s Network default/blue begins",
			"1m10s Network default/green ends",
			"2m0s Network default/blue ends")
		stop()
	})
}

// APod2ThatHasWaitedComesNext checks that other keys do not hold up a Pod2 for long.
func (n New) APod2ThatHasWaitedComesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		c, stop := n.start(t, sync(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
			time.Sleep(200 * time.Millisecond)
			return reconcile.Result{}, nil
		}), 1)
		for _, key := range []string{"Pod web-0", "Pod web-1", "Pod web-2", "Pod web-3", "Pod2 web"} {
			kind, name, _ := strings.Cut(key, " ")
			c.Queue.Add(reconcile.Key{Kind: kind, Name: name})
		}
		time.Sleep(time.Second)
		log.Expect(t, "0s Pod web-0", "200ms Pod web-1", "400ms Pod web-2", "600ms Pod2 web", "800ms Pod web-3")
		stop()
	})
}
