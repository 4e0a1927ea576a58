package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/internal/app"
	"github.com/pod2/pod2/internal/serving"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	samplefake "github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
	"github.com/pod2/pod2/pkg/reconcile"
	"github.com/pod2/pod2/test/faults"
	"github.com/pod2/pod2/test/loop"
)

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

func TestNewObjectsAreNoChanges(t *testing.T) {
	c := &Controller{queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Key]())}
	defer c.queue.ShutDown()
	network := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}}
	handler := c.handler(klog.Background(), reconcile.Watch{Keys: networkKeys, Changes: true})
	if handler.OnAdd(network, false); c.queue.Len() != 0 {
		t.Error("a new object queued its key")
	}
	if handler.OnDelete(network); c.queue.Len() != 1 {
		t.Error("a deletion queued no key")
	}
}

// Only a controller of all namespaces needs rights on cluster-wide objects.
func TestWhatOfTheClusterIsWatched(t *testing.T) {
	for _, test := range []struct {
		namespace            string
		served, nodes, cidrs bool
	}{
		{"", true, true, true},
		{"", false, true, false},
		{"a", true, false, false},
	} {
		informers, _ := newInformers(reconcile.Clients{Kube: fake.NewSimpleClientset(), Sample: samplefake.NewSimpleClientset()}, test.namespace, test.served)
		if nodes, cidrs := informers.Nodes != nil, informers.ServiceCIDRs != nil; nodes != test.nodes || cidrs != test.cidrs {
			t.Errorf("%+v: Nodes %t, ServiceCIDRs %t", test, nodes, cidrs)
		}
	}
}

func TestNoMemoryIsSpentOnAnIndexOfPodsByNamespace(t *testing.T) {
	informers, _ := newInformers(reconcile.Clients{Kube: fake.NewSimpleClientset(), Sample: samplefake.NewSimpleClientset()}, "", true)
	if _, indexed := informers.Pods.Informer().GetIndexer().GetIndexers()[cache.NamespaceIndex]; indexed {
		t.Error("the cache of pods has an index of namespaces")
	}
}

// startAll starts everything that run starts, and returns a function that stops it.
func startAll(t *testing.T, clients reconcile.Clients) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	informers, factories := newInformers(clients, metav1.NamespaceAll, true)
	reconciler, err := reconcile.New(clients, informers, record.NewFakeRecorder(1000), clock.RealClock{}, reconcile.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	c := NewController(reconciler, reconciler.Watches())
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

// theLoop is the Controller for the tests of test/loop.
var theLoop = loop.New(func(syncer loop.Syncer, watches []reconcile.Watch) loop.Controller {
	c := NewController(syncer, watches)
	return loop.Controller{Run: c.Run, Check: c.Check, Queue: c.queue}
})

func TestInformersReachSync(t *testing.T)    { theLoop.InformersReachSync(t) }
func TestAStandbyQueuesNothing(t *testing.T) { theLoop.AStandbyQueuesNothing(t) }
func TestNothingIsSyncedBeforeTheCachesAreFull(t *testing.T) {
	theLoop.NothingIsSyncedBeforeTheCachesAreFull(t)
}
func TestFailedKeyIsRetriedEverMoreSlowlyUntilItSucceeds(t *testing.T) {
	theLoop.FailedKeyIsRetriedEverMoreSlowlyUntilItSucceeds(t)
}
func TestRetriesAreAtMostAMinuteApartAndOfAnOldViewAThirdOfThat(t *testing.T) {
	theLoop.RetriesAreAtMostAMinuteApartAndOfAnOldViewAThirdOfThat(t)
}
func TestRest(t *testing.T)                             { theLoop.Rest(t) }
func TestRequeueAfter(t *testing.T)                     { theLoop.RequeueAfter(t) }
func TestOneKeyIsNeverSyncedTwiceAtOnce(t *testing.T)   { theLoop.OneKeyIsNeverSyncedTwiceAtOnce(t) }
func TestAPod2ThatHasWaitedComesNext(t *testing.T)      { theLoop.APod2ThatHasWaitedComesNext(t) }
func TestStop(t *testing.T)                             { theLoop.Stop(t) }
func TestSyncsEndWithTheirContext(t *testing.T)         { theLoop.SyncsEndWithTheirContext(t) }
func TestStuckSync(t *testing.T)                        { theLoop.StuckSync(t) }
func TestPanicHarmsNoOtherKey(t *testing.T)             { theLoop.PanicHarmsNoOtherKey(t) }
func TestAPanicThatSyncReturnsCountsAsOne(t *testing.T) { theLoop.APanicThatSyncReturnsCountsAsOne(t) }

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
