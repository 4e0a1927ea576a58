package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/pod2/pod2/test/bench/measure"
)

// point is how many pods there were since a moment.
type point struct {
	at           time.Time
	exist, ready int
}

// timeline is what a watch of a namespace's pods told.
type timeline struct {
	measure.Watched
	watch   watch.Interface
	ready   map[types.UID]bool // of those that exist
	points  []point
	created []time.Time
}

// observe watches a namespace that has no pod yet. The API server ends the watch of who
// falls behind, on a busy machine that may be us: it goes on where it was.
func (b *bench) observe(ctx context.Context, ns string) *timeline {
	pods := b.Kube.CoreV1().Pods(ns)
	list := measure.Must(pods.List(ctx, metav1.ListOptions{}))
	w := measure.Must(watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	}))
	t := newTimeline()
	t.watch = w
	go t.follow()
	return t
}

func newTimeline() *timeline { return &timeline{ready: map[types.UID]bool{}} }

func (t *timeline) follow() {
	for event := range t.watch.ResultChan() {
		now := time.Now()
		t.Do(func() { t.note(event, now) })
	}
	t.Break(errors.New("the watch ended"))
}

func (t *timeline) note(event watch.Event, now time.Time) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return // an error ends the watch
	}
	if _, known := t.ready[pod.UID]; !known && event.Type != watch.Deleted {
		t.created = append(t.created, now)
	}
	p := point{at: now, ready: t.last().ready}
	if t.ready[pod.UID] {
		p.ready--
	}
	if event.Type == watch.Deleted {
		delete(t.ready, pod.UID)
	} else {
		t.ready[pod.UID] = measure.IsReady(pod)
	}
	if t.ready[pod.UID] {
		p.ready++
	}
	p.exist = len(t.ready)
	t.points = append(t.points, p)
}

// wait until the last point is as wanted.
func (t *timeline) wait(ctx context.Context, what string, wanted func(point) bool) {
	err := measure.Try(func() { t.Wait(ctx, what, func() bool { return wanted(t.last()) }) })
	if err != nil {
		t.Do(func() { err = fmt.Errorf("%w: %d pods, %d Ready", err, t.last().exist, t.last().ready) })
	}
	measure.Check(err)
}

// last point.
func (t *timeline) last() point {
	if len(t.points) == 0 {
		return point{}
	}
	return t.points[len(t.points)-1]
}

// first returns when there first were so many pods, or so many Ready.
func (t *timeline) first(since time.Time, reached func(point) bool) (after time.Duration) {
	t.Do(func() {
		i := slices.IndexFunc(t.points, func(p point) bool { return !p.at.Before(since) && reached(p) })
		after = t.points[i].at.Sub(since)
	})
	return after
}
