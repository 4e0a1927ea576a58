package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/internal/app"
	"github.com/pod2/pod2/internal/serving"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	samplefake "github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions"
	"github.com/pod2/pod2/pkg/reconcile"
	"github.com/pod2/pod2/test/faults"
	"github.com/pod2/pod2/test/journal"
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

// start runs a controller without informers. It returns a function that stops it and
// waits for its end. Use it in a synctest bubble.
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
		{"updated: the keys of the old object count too", func(h cache.ResourceEventHandler) { h.OnUpdate(network("blue"), network("green")) },
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
		{"deleted, and the object is unknown", func(h cache.ResourceEventHandler) {
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

// recordingQueue only records the added keys.
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

// Every object is synced once at the start, and again at each resync. A resync leaves no
// trace: no backoff, no further sync.
func TestInformersReachSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := samplefake.NewSimpleClientset(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}})
		factory := sampleinformers.NewSharedInformerFactory(client, time.Hour)
		informer := factory.Samplecrd().V1().Networks().Informer()
		log := journal.New()
		c, err := NewController(t.Context(), syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
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
		log.Expect(t, "0s Network default/blue", "1h0m0s Network default/blue", "2h0m0s Network default/blue")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
}

// An update without a change that matters to the watch wakes no key.
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

// With an empty cache every replica looks absent and would be created.
func TestNothingIsSyncedBeforeTheCachesAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informer := sampleinformers.NewSharedInformerFactory(samplefake.NewSimpleClientset(), 0).Samplecrd().V1().Networks().Informer() // never started
		log := journal.New()
		c, err := NewController(t.Context(), syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
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
		log.Expect(t)
	})
}

func TestFailedKeyIsRetriedEverMoreSlowlyUntilItSucceeds(t *testing.T) {
	conflict := apierrors.NewConflict(samplecrdv1.Resource("networks"), "blue", errors.New("changed"))
	for _, failure := range []error{errors.New("refused"), conflict, fmt.Errorf("sync: %w", reconcile.ErrStale)} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.New()
			failures := 5
			c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
				log.Note("%s", key)
				if failures--; failures >= 0 {
					return reconcile.Result{RequeueAfter: time.Nanosecond}, failure // the result is ignored if there is an error
				}
				return reconcile.Result{}, nil
			}), 2)
			c.queue.Add(blue)
			time.Sleep(time.Hour)
			log.Expect(t, "0s Network default/blue", "5ms Network default/blue", "15ms Network default/blue",
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
		log := journal.New()
		after := []time.Duration{90 * time.Second, time.Hour, 0}
		c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
			result := reconcile.Result{RequeueAfter: after[0]}
			after = after[1:]
			return result, nil
		}), 2)
		c.queue.Add(blue)
		time.Sleep(24 * time.Hour)
		log.Expect(t, "0s Network default/blue", "1m30s Network default/blue", "1h1m30s Network default/blue")
		stop()
	})
}

// If a key is named again during its sync, it waits for that sync and is synced once
// more, for any number of events. Other keys do not wait.
func TestOneKeyIsNeverSyncedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s begins", key)
			time.Sleep(time.Minute)
			log.Note("%s ends", key)
			return reconcile.Result{}, nil
		}), 8)
		c.queue.Add(blue)
		for range 10 {
			time.Sleep(time.Second)
			c.queue.Add(blue)
		}
		c.queue.Add(green)
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
				log := journal.New()
				c, stop := start(t, syncFunc(func(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
					log.Note("%s begins", key)
					select {
					case <-time.After(test.takes):
					case <-ctx.Done():
					}
					log.Note("%s ends: %v", key, ctx.Err())
					return reconcile.Result{}, ctx.Err()
				}), 1)
				c.queue.Add(blue)
				time.Sleep(10 * time.Second)
				c.queue.Add(blue)  // waits for its own sync to end,
				c.queue.Add(green) // and this one for a worker: neither may begin any more
				log.Note("stopping")
				stop()
				log.Note("stopped")
				log.Expect(t, test.want...)
			})
		})
	}
}

// A lost lease ends syncs at once, because another leader may be working.
func TestSyncsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
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
		log.Note("stopped")
		log.Expect(t, "1m0s stopped")
	})
}

// Check reports a sync that runs for more than syncLimit, and no shorter one.
func TestStuckSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			if key == blue {
				time.Sleep(20 * time.Minute)
			}
			return reconcile.Result{}, nil
		}), 8)
		c.queue.Add(blue)
		for range 5 {
			c.queue.Add(green)
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

func TestPanicHarmsNoOtherKey(t *testing.T) {
	before := panics(t)
	synctest.Test(t, func(t *testing.T) {
		log := journal.New()
		c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.Note("%s", key)
			if key == blue {
				var nothing *samplecrdv1.Network
				_ = nothing.Name
			}
			return reconcile.Result{}, nil
		}), 1)
		c.queue.Add(blue)
		c.queue.Add(green)
		time.Sleep(20 * time.Millisecond)
		log.Expect(t, "0s Network default/blue", "0s Network default/green", "5ms Network default/blue", "15ms Network default/blue")
		stop()
	})
	if got := panics(t) - before; got != 3 {
		t.Errorf("pod2_sync_total counted %v panics, want 3", got)
	}
}

// One of several concurrent calls, in its own goroutine, panicked: it arrives as an error.
func TestAPanicThatSyncReturnsCountsAsOne(t *testing.T) {
	before := panics(t)
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, syncFunc(func(context.Context, reconcile.Key) (reconcile.Result, error) {
			return reconcile.Result{}, fmt.Errorf("create pods: %w", errors.Join(reconcile.ErrStale, &reconcile.PanicError{Value: "x"}))
		}), 1)
		c.queue.Add(blue)
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

// Only a controller of all namespaces needs rights on cluster-wide objects.
func TestWhatOfTheClusterIsWatched(t *testing.T) {
	for _, test := range []struct {
		namespace, agents       string
		served                  bool
		nodes, cidrs, agentPods bool
	}{
		{"", "pod2-agent", true, true, true, true},
		{"", "pod2-agent", false, true, false, true},
		{"", "", true, true, true, false},
		{"a", "", true, false, false, false},
		{"a", "pod2-agent", true, true, false, true},
	} {
		informers, _ := newInformers(reconcile.Clients{Kube: fake.NewSimpleClientset(), Sample: samplefake.NewSimpleClientset()}, test.namespace, test.agents, test.served)
		if nodes, cidrs, agents := informers.Nodes != nil, informers.ServiceCIDRs != nil, informers.Agents != nil; nodes != test.nodes || cidrs != test.cidrs || agents != test.agentPods {
			t.Errorf("%+v: Nodes %t, ServiceCIDRs %t, agents %t", test, nodes, cidrs, agents)
		}
	}
}

// startAll starts everything that run starts, and returns a function that stops it.
func startAll(t *testing.T, clients reconcile.Clients) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	informers, factories := newInformers(clients, metav1.NamespaceAll, app.NewOptions().AgentNamespace, true)
	reconciler, err := reconcile.New(clients, informers, record.NewFakeRecorder(1000), clock.RealClock{}, reconcile.Settings{UnderlayMTU: 1500, AgentNamespace: app.NewOptions().AgentNamespace})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewController(ctx, reconciler, reconciler.Watches())
	if err != nil {
		t.Fatal(err)
	}
	for _, factory := range factories {
		factory.StartWithContext(ctx)
	}
	synctest.Wait() // a fake watch has no history: it must be open before the first write
	done := make(chan error)
	go func() { done <- c.Run(ctx, ctx, 4) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		for _, factory := range factories {
			factory.Shutdown()
		}
	}
}

// program is run without the servers of metrics and probes. test/faults kills it,
// disconnects it, and shows it old views.
var program faults.Program = func(ctx context.Context, config *rest.Config, leaderElect bool) error {
	o := app.NewOptions()
	o.MetricsAddress, o.HealthAddress = serving.Nowhere, serving.Nowhere
	o.Election.LeaderElect = leaderElect
	return run(ctx, config, o)
}

func TestHappyPath(t *testing.T) { faults.HappyPath(t, startAll, 3*resync) }

func TestKindsOfRequests(t *testing.T)                 { program.KindsOfRequests(t) }
func TestCrashAtEveryWrite(t *testing.T)               { program.CrashAtEveryWrite(t) }
func TestFrozenWatches(t *testing.T)                   { program.FrozenWatches(t) }
func TestRestartOnAnOlderView(t *testing.T)            { program.RestartOnAnOlderView(t) }
func TestHeldWrites(t *testing.T)                      { program.HeldWrites(t) }
func TestLeaderIsCutOff(t *testing.T)                  { program.LeaderIsCutOff(t) }
func TestTwoActive(t *testing.T)                       { program.TwoActive(t) }
func TestFaults(t *testing.T)                          { program.Faults(t) }
func TestHeldBackReplicaComesBackAsItWas(t *testing.T) { program.HeldBackReplicaComesBackAsItWas(t) }
func TestReplicasExchangeAddresses(t *testing.T)       { program.ReplicasExchangeAddresses(t) }
func TestReplicasThatCannotExchangeAddressesServe(t *testing.T) {
	program.ReplicasThatCannotExchangeAddressesServe(t)
}
func TestReplicaRunsOnWhileAnotherPodHasItsAddress(t *testing.T) {
	program.ReplicaRunsOnWhileAnotherPodHasItsAddress(t)
}
func TestMultusComesAndGoes(t *testing.T) { program.MultusComesAndGoes(t) }
func TestAForeignDefinitionIsNotTriedAgain(t *testing.T) {
	program.AForeignDefinitionIsNotTriedAgain(t)
}
func TestNoConflictWithItself(t *testing.T) { program.NoConflictWithItself(t) }
func TestTheTwoSyncsOfANetworkDoNotConflict(t *testing.T) {
	program.TheTwoSyncsOfANetworkDoNotConflict(t)
}
func TestARunOfACronTabCostsTwoWritesOfItsStatus(t *testing.T) {
	program.ARunOfACronTabCostsTwoWritesOfItsStatus(t)
}
func TestAPodWithoutOurLabelHoldsUpNothing(t *testing.T) {
	program.APodWithoutOurLabelHoldsUpNothing(t)
}
func TestRemovedLabelsComeBack(t *testing.T) { program.RemovedLabelsComeBack(t) }
