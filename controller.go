package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/internal/app"
	"github.com/pod2/pod2/internal/queue"
	"github.com/pod2/pod2/pkg/reconcile"
)

// Syncer brings the cluster closer to the desired state of one key's object. Many
// goroutines call it at once, but never two for the same key. A key is only a hint to
// look. It says nothing about the events, not even how many there were.
type Syncer interface {
	Sync(ctx context.Context, key reconcile.Key) (reconcile.Result, error)
}

// Controller is the loop, and knows no spec field:
//
//	event --Keys--> queue --worker--> Sync --ok----> Forget; again after RequeueAfter, if set
//	                  ^                      error-> again after the backoff
//	                  |________________________________|
//
// A key is in the queue at most once, even if many events name it. If an event names it
// while a worker syncs it, it is queued again when that worker is done. It waits longer if
// that sync asked for a rest.
type Controller struct {
	syncer  Syncer
	watches []reconcile.Watch
	queue   workqueue.TypedRateLimitingInterface[reconcile.Key]
	backoff workqueue.TypedRateLimiter[reconcile.Key] // the queue's

	mu sync.Mutex
	// since says when each running sync began.
	since map[reconcile.Key]time.Time
	// rests says until when a key is not synced.
	rests map[reconcile.Key]time.Time
}

const (
	// A failed key is retried after 5 ms, 10 ms, 20 ms ... 1 min. The first steps suit a
	// conflict or a lagging cache. The last is the longest wait for a person who fixed
	// something that we do not watch (a quota, a webhook). There is no limit over all
	// keys: the API server's priority and fairness does that, and one failing object must
	// not slow down the others.
	retryBase = 5 * time.Millisecond
	retryMax  = time.Minute

	// staleMax is the longest delay of a key whose view was old. The reconciler remembers
	// the result of a live read for only half a minute. After a longer delay it would
	// find the same again and again.
	staleMax = 20 * time.Second
	// staleTold is the number of failures in a row from which they are logged at any
	// verbosity: after about five seconds.
	staleTold = 10

	// stopGrace is how long running syncs may continue after a stop. The rest of a pod's
	// default of 30 s (terminationGracePeriodSeconds) is for releasing the lease.
	stopGrace = 20 * time.Second

	// syncLimit is how long a sync may take before Check reports it as stuck. The longest
	// sync, of the largest possible Pod2, makes thousands of calls. A longer one waits
	// for something that never happens.
	syncLimit = 15 * time.Minute
)

// NewController makes a controller that queues nothing before Run: the queue of a standby
// would grow with each pod that ever existed.
func NewController(syncer Syncer, watches []reconcile.Watch) *Controller {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Key](retryBase, retryMax)
	return &Controller{
		syncer:  syncer,
		watches: watches,
		since:   map[reconcile.Key]time.Time{},
		rests:   map[reconcile.Key]time.Time{},
		backoff: backoff,
		queue:   queue.New(backoff, clock.RealClock{}),
	}
}

// listen registers with every informer, which passes on the objects of its cache and then each
// change. It returns when the keys of all cached objects are in the queue.
func (c *Controller) listen(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	var synced []cache.DoneChecker
	for i, watch := range c.watches {
		registration, err := watch.Informer.AddEventHandlerWithOptions(c.handler(logger, watch), cache.HandlerOptions{Logger: &logger})
		if err != nil {
			return fmt.Errorf("register with informer %d: %w", i, err)
		}
		if !watch.Optional {
			synced = append(synced, registration.HasSyncedChecker())
		}
	}
	if !cache.WaitFor(ctx, "", synced...) {
		return fmt.Errorf("wait for the informer caches: %w", context.Cause(ctx))
	}
	return nil
}

// handler queues the keys of an event. There is no delay unless the watch has patience
// with the event; only failures are rate limited. The old object of an update counts too,
// because an object that it no longer names may have to react.
func (c *Controller) handler(logger klog.Logger, watch reconcile.Watch) cache.ResourceEventHandler {
	enqueue := func(objects ...any) {
		// Without this, an object that makes the watch panic would end the process at
		// every start.
		defer func() {
			if value := recover(); value != nil {
				name, _ := cache.MetaNamespaceKeyFunc(objects[0])
				logger.Error(&reconcile.PanicError{Value: value}, "Event handler panicked and the event was dropped: please report this",
					"type", fmt.Sprintf("%T", objects[0]), "object", name, "stack", string(debug.Stack()))
			}
		}()
		// Each key once: a worker may finish it before it comes again.
		queued := sets.New[reconcile.Key]()
		after := time.Duration(0)
		if watch.Same != nil && len(objects) == 2 && watch.Same(objects[0], objects[1]) {
			return
		}
		if watch.Patience != nil && len(objects) == 2 {
			after = watch.Patience(objects[0], objects[1])
		}
		for _, obj := range objects {
			for _, key := range watch.Keys(obj) {
				if !queued.Has(key) {
					queued.Insert(key)
					if after > 0 {
						c.queue.AddAfter(key, after)
					} else {
						c.queue.Add(key) // AddAfter counts as a retry
					}
				}
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if !watch.Changes {
				enqueue(obj)
			}
		},
		UpdateFunc: func(old, new any) { enqueue(old, new) },
		DeleteFunc: func(obj any) {
			// If the watch missed a deletion, the next list reveals it, with the object
			// as the cache last saw it.
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			enqueue(obj)
		},
	}
}

// WaitForSync returns true when the caches hold the first lists of the API server, and
// false when ctx ends first.
func (c *Controller) WaitForSync(ctx context.Context) bool {
	var synced []cache.DoneChecker
	for _, watch := range c.watches {
		if !watch.Optional {
			synced = append(synced, watch.Informer.HasSyncedChecker())
		}
	}
	return cache.WaitFor(ctx, "", synced...)
}

// Run syncs with the given number of workers until ctx ends. Then no further sync begins.
// Running syncs may finish within stopGrace, or until their context syncs ends. Run
// returns when all workers have stopped, and cannot be called again.
func (c *Controller) Run(ctx, syncs context.Context, workers int) error {
	defer c.queue.ShutDown()
	logger := klog.FromContext(ctx)
	// With an empty cache every replica looks absent.
	if err := c.listen(ctx); err != nil {
		return err
	}

	syncs, cut := context.WithCancel(syncs)
	defer cut()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for c.syncNext(syncs) {
			}
		})
	}
	logger.Info("Controller started", "workers", workers)

	<-ctx.Done()
	logger.Info("Controller is stopping: running syncs may finish", "grace", stopGrace)
	c.queue.ShutDown()
	defer time.AfterFunc(stopGrace, cut).Stop()
	running.Wait()
	logger.Info("Controller stopped")
	return nil
}

// syncNext waits for one key and syncs it. It returns false after the queue was shut down.
func (c *Controller) syncNext(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if c.queue.ShuttingDown() {
		return false // the queue still returns keys that it held, but no new sync may begin
	}

	if left := c.resting(key); left > 0 {
		c.queue.AddAfter(key, left)
		return true
	}

	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "key", key))
	started := time.Now()
	c.begin(key, started)
	result, err := c.sync(ctx, key)
	c.end(key)
	for _, woken := range result.Wakes {
		c.queue.Add(woken)
	}
	app.ObserveSync(key.Kind, c.report(ctx, key, err), time.Since(started))

	if err != nil {
		delay := c.backoff.When(key)
		if errors.Is(err, reconcile.ErrStale) {
			delay = min(delay, staleMax)
		}
		c.queue.AddAfter(key, delay)
		return true
	}
	c.queue.Forget(key)
	c.rest(key, result.Rest)
	if result.RequeueAfter > 0 {
		c.queue.AddAfter(key, result.RequeueAfter)
	}
	return true
}

func (c *Controller) begin(key reconcile.Key, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since[key] = now
}

func (c *Controller) end(key reconcile.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.since, key)
}

// rest keeps a key from being synced for a while.
func (c *Controller) rest(key reconcile.Key, d time.Duration) {
	if d <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(c.rests, func(_ reconcile.Key, end time.Time) bool { return !end.After(now) })
	c.rests[key] = now.Add(d)
}

// resting is how much longer the key must not be synced.
func (c *Controller) resting(key reconcile.Key) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.rests[key])
}

// Check returns an error if a sync is stuck. Its object is no longer served, because a
// key is never synced twice at once, and its worker serves no other key.
func (c *Controller) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for key, began := range c.since {
		if took := time.Since(began); took > syncLimit {
			errs = append(errs, fmt.Errorf("sync of %s has been running for %s (limit %s)", key, took.Round(time.Second), syncLimit))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// sync turns a panic into an error. So an object that makes Sync panic is retried like a
// failing one, and all others are still served.
func (c *Controller) sync(ctx context.Context, key reconcile.Key) (result reconcile.Result, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &reconcile.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return c.syncer.Sync(ctx, key)
}

// report logs the end of a sync and returns its label for the metrics. A successful sync
// logs nothing, because the reconciler logs its changes.
func (c *Controller) report(ctx context.Context, key reconcile.Key, err error) string {
	logger := klog.FromContext(ctx)
	failures := c.queue.NumRequeues(key) + 1
	var panicked *reconcile.PanicError
	switch {
	case err == nil:
		return "success"
	case errors.As(err, &panicked):
		logger.Error(err, "Sync panicked and will be retried: please report this", "failures", failures, "stack", string(panicked.Stack))
		return "panic"
	case ctx.Err() != nil:
		logger.Info("Sync was cancelled because the controller is stopping", "reason", err)
		return "cancelled"
	case apierrors.IsConflict(err), errors.Is(err, reconcile.ErrStale):
		// Another writer was faster, or our cache is older than our last write. Another
		// look is enough, unless this does not end.
		level := 2
		if failures >= staleTold {
			level = 0
		}
		logger.V(level).Info("Sync had an old view and will be retried", "reason", err, "failures", failures)
		return "retry"
	default:
		logger.Error(err, "Sync failed and will be retried", "failures", failures)
		return "error"
	}
}
