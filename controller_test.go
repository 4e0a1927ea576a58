package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	samplefake "github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions"
	"github.com/pod2/pod2/pkg/reconcile"
)

// syncFunc is a Syncer.
type syncFunc func(ctx context.Context, key reconcile.Key) (reconcile.Result, error)

func (f syncFunc) Sync(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
	return f(ctx, key)
}

var (
	blue  = reconcile.Key{Kind: "Network", Namespace: "default", Name: "blue"}
	green = reconcile.Key{Kind: "Network", Namespace: "default", Name: "green"}
)

// journal writes down what happens, each line with the virtual time since it
// was made.
type journal struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func newJournal() *journal { return &journal{start: time.Now()} }

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%s ", time.Since(j.start))+fmt.Sprintf(format, args...))
}

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if got, want := strings.Join(j.lines, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// start runs a controller without informers, and returns how to stop it and
// wait for its end. Use it in a synctest bubble.
func start(t *testing.T, syncer Syncer, workers int) (c *Controller, stop func()) {
	t.Helper()
	c, err := NewController(t.Context(), syncer, nil)
	if err != nil {
		t.Fatal(err)
	}
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

func TestEventsBecomeKeys(t *testing.T) {
	network := func(name string) *samplecrdv1.Network {
		return &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	for _, test := range []struct {
		name  string
		event func(cache.ResourceEventHandler)
		want  string
	}{
		{"added", func(h cache.ResourceEventHandler) { h.OnAdd(network("blue"), false) }, "Network default/blue"},
		{"updated: what the old object named counts too", func(h cache.ResourceEventHandler) { h.OnUpdate(network("blue"), network("green")) },
			"Network default/blue, Network default/green"},
		{"updated: one key for both", func(h cache.ResourceEventHandler) { h.OnUpdate(network("blue"), network("blue")) }, "Network default/blue"},
		{"updated with patience", func(h cache.ResourceEventHandler) { h.OnUpdate(network("slow"), network("slow")) }, "Network default/slow in 1s"},
		{"deleted", func(h cache.ResourceEventHandler) { h.OnDelete(network("blue")) }, "Network default/blue"},
		{"deleted while the watch was away", func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/blue", Obj: network("blue")})
		}, "Network default/blue"},
		{"panics, and the next event still counts", func(h cache.ResourceEventHandler) {
			h.OnAdd(network("evil"), false)
			h.OnAdd(network("blue"), false)
		}, "Network default/blue"},
		{"deleted, and nobody knows what it was", func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/blue"})
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			queue := &recordingQueue{}
			c := &Controller{queue: queue}
			test.event(c.handler(klog.Background(), reconcile.Watch{Keys: networkKeys, Patience: networkPatience}))
			if got := strings.Join(queue.added, ", "); got != test.want {
				t.Errorf("queued %q, want %q", got, test.want)
			}
		})
	}
}

// recordingQueue only writes down what is added.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Key]
	added []string
}

func (q *recordingQueue) Add(key reconcile.Key) { q.added = append(q.added, key.String()) }

func (q *recordingQueue) AddAfter(key reconcile.Key, after time.Duration) {
	q.added = append(q.added, fmt.Sprintf("%s in %s", key, after))
}

func networkPatience(_, new any) time.Duration {
	if network, ok := new.(*samplecrdv1.Network); ok && network.Name == "slow" {
		return time.Second
	}
	return 0
}

func networkKeys(obj any) []reconcile.Key {
	network, ok := obj.(*samplecrdv1.Network)
	if !ok {
		return nil
	}
	if network.Name == "evil" {
		panic(network.Name)
	}
	return []reconcile.Key{{Kind: "Network", Namespace: network.Namespace, Name: network.Name}}
}

// Every object is looked at once at the start, and again at each resync, which
// leaves no trace: no backoff, no further sync.
func TestInformersReachSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := samplefake.NewSimpleClientset(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}})
		factory := sampleinformers.NewSharedInformerFactory(client, time.Hour)
		informer := factory.Samplecrd().V1().Networks().Informer()
		log := newJournal()
		c, err := NewController(t.Context(), syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.note("%s", key)
			return reconcile.Result{}, nil
		}), []reconcile.Watch{{Informer: informer, Keys: networkKeys}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		done := make(chan error)
		go func() { done <- c.Run(ctx, ctx, 2) }()

		time.Sleep(2*time.Hour + time.Minute)
		log.expect(t, "0s Network default/blue", "1h0m0s Network default/blue", "2h0m0s Network default/blue")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
}

// An update in which nothing changed that the watch is about wakes nobody.
func TestSameUpdatesAreNoEvents(t *testing.T) {
	var names []string
	c := &Controller{queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Key]())}
	defer c.queue.ShutDown()
	handler := c.handler(klog.Background(), reconcile.Watch{Keys: networkKeys, Same: func(old, new any) bool {
		return old.(*samplecrdv1.Network).Spec.CIDR == new.(*samplecrdv1.Network).Spec.CIDR
	}})
	network := func(name, cidr string) *samplecrdv1.Network {
		return &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: samplecrdv1.NetworkSpec{CIDR: cidr}}
	}
	handler.OnAdd(network("added", "a"), false)
	handler.OnUpdate(network("same", "a"), network("same", "a"))
	handler.OnUpdate(network("changed", "a"), network("changed", "b"))
	handler.OnDelete(network("deleted", "a"))
	for c.queue.Len() > 0 {
		key, _ := c.queue.Get()
		names = append(names, key.Name)
		c.queue.Done(key)
	}
	if got := strings.Join(names, " "); got != "added changed deleted" {
		t.Errorf("keys of %s", got)
	}
}

// On an empty cache every replica looks absent, and would be created.
func TestNothingIsSyncedBeforeTheCachesAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informer := sampleinformers.NewSharedInformerFactory(samplefake.NewSimpleClientset(), 0).Samplecrd().V1().Networks().Informer() // never started
		log := newJournal()
		c, err := NewController(t.Context(), syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.note("%s", key)
			return reconcile.Result{}, nil
		}), []reconcile.Watch{{Informer: informer, Keys: networkKeys}})
		if err != nil {
			t.Fatal(err)
		}
		c.queue.Add(blue)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.Run(ctx, ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v, want the end of its context", err)
		}
		log.expect(t)
	})
}

func TestFailedKeyIsRetriedEverMoreSlowlyUntilItSucceeds(t *testing.T) {
	conflict := apierrors.NewConflict(samplecrdv1.Resource("networks"), "blue", errors.New("changed"))
	for _, failure := range []error{errors.New("refused"), conflict, fmt.Errorf("sync: %w", reconcile.ErrStale)} {
		synctest.Test(t, func(t *testing.T) {
			log := newJournal()
			failures := 5
			c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
				log.note("%s", key)
				if failures--; failures >= 0 {
					return reconcile.Result{RequeueAfter: time.Nanosecond}, failure // a result next to an error means nothing
				}
				return reconcile.Result{}, nil
			}), 2)
			c.queue.Add(blue)
			time.Sleep(time.Hour)
			log.expect(t, "0s Network default/blue", "5ms Network default/blue", "15ms Network default/blue",
				"35ms Network default/blue", "75ms Network default/blue", "155ms Network default/blue")
			if n := c.queue.NumRequeues(blue); n != 0 {
				t.Errorf("%d failures remembered after a success, want none", n)
			}
			stop()
		})
	}
}

func TestRetriesAreAtMostAMinuteApartAndOfAnOldViewAThirdOfThat(t *testing.T) {
	for failure, want := range map[error]time.Duration{
		errors.New("refused"):                      time.Minute,
		fmt.Errorf("sync: %w", reconcile.ErrStale): 20 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			var times []time.Time
			c, stop := start(t, syncFunc(func(context.Context, reconcile.Key) (reconcile.Result, error) {
				times = append(times, time.Now())
				return reconcile.Result{}, failure
			}), 1)
			c.queue.Add(blue)
			time.Sleep(time.Hour)
			stop()
			last := len(times) - 1
			if gap := times[last].Sub(times[last-1]); gap != want {
				t.Errorf("after an hour of %q a key is retried every %s, want %s", failure, gap, want)
			}
		})
	}
}

func TestRequeueAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newJournal()
		after := []time.Duration{90 * time.Second, time.Hour, 0}
		c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.note("%s", key)
			result := reconcile.Result{RequeueAfter: after[0]}
			after = after[1:]
			return result, nil
		}), 2)
		c.queue.Add(blue)
		time.Sleep(24 * time.Hour)
		log.expect(t, "0s Network default/blue", "1m30s Network default/blue", "1h1m30s Network default/blue")
		stop()
	})
}
