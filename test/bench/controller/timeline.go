package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

const patience = 5 * time.Minute

func poll(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, done); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// point is how many pods there were since a moment.
type point struct {
	at           time.Time
	exist, ready int
}

// timeline is what a watch of a namespace's pods told.
type timeline struct {
	watch watch.Interface

	mu      sync.Mutex
	ready   map[types.UID]bool // of those that exist
	points  []point
	created []time.Time
	broken  bool
	changed chan struct{} // closed and replaced at each event
}

// observe watches a namespace that has no pod yet. The API server ends the watch of who
// falls behind, on a busy machine that may be us: it goes on where it was.
func (b *bench) observe(ctx context.Context, ns string) (*timeline, error) {
	pods := b.kube.CoreV1().Pods(ns)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", ns, err)
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods of %s: %w", ns, err)
	}
	t := &timeline{watch: w, ready: map[types.UID]bool{}, changed: make(chan struct{})}
	go t.follow()
	return t, nil
}

func (t *timeline) follow() {
	for event := range t.watch.ResultChan() {
		t.note(event, time.Now())
	}
	t.mu.Lock()
	t.broken = true
	close(t.changed)
	t.mu.Unlock()
}

func (t *timeline) note(event watch.Event, now time.Time) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return // an error ends the watch
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.ready[pod.UID]; !known && event.Type != watch.Deleted {
		t.created = append(t.created, now)
	}
	p := point{at: now}
	if n := len(t.points); n > 0 {
		p.ready = t.points[n-1].ready
	}
	if t.ready[pod.UID] {
		p.ready--
	}
	if event.Type == watch.Deleted {
		delete(t.ready, pod.UID)
	} else {
		t.ready[pod.UID] = isReady(pod)
	}
	if t.ready[pod.UID] {
		p.ready++
	}
	p.exist = len(t.ready)
	t.points = append(t.points, p)
	close(t.changed)
	t.changed = make(chan struct{})
}

func isReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// wait returns when the last point is as wanted, and its time.
func (t *timeline) wait(ctx context.Context, what string, wanted func(point) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		t.mu.Lock()
		changed, broken, last := t.changed, t.broken, point{}
		if n := len(t.points); n > 0 {
			last = t.points[n-1]
		}
		t.mu.Unlock()
		switch {
		case wanted(last):
			return last.at, nil
		case broken:
			return time.Time{}, fmt.Errorf("wait until %s: the watch ended; %d pods, %d Ready", what, last.exist, last.ready)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait until %s: %d pods, %d Ready: %w", what, last.exist, last.ready, ctx.Err())
		}
	}
}

// first returns when there first were so many pods, or so many Ready.
func (t *timeline) first(since time.Time, reached func(point) bool) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.points {
		if !p.at.Before(since) && reached(p) {
			return p.at.Sub(since)
		}
	}
	return -1
}

// creations is how many pods came so far, and when the last one did.
func (t *timeline) creations() (n int, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = len(t.created); n > 0 {
		last = t.created[n-1]
	}
	return n, last
}
