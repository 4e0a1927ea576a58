package measure

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
)

// Point has the numbers of pods from a moment on, and how many were created until then.
type Point struct {
	At                    time.Time
	Exist, Ready, Created int
}

// Pods are the events of a watch of a namespace's pods.
type Pods struct {
	Points []Point // read them only after Stop
	ready  map[types.UID]bool
	lock   Watched
	watch  watch.Interface
}

// WatchPods of a namespace that has no pods yet, and pass every event to note. The API
// server ends the watch of a client that falls behind, for example on a busy machine. The
// watch then resumes at its last resourceVersion.
func (c *Cluster) WatchPods(ctx context.Context, ns string, note func(watch.Event)) *Pods {
	pods := c.Kube.CoreV1().Pods(ns)
	list := Must(pods.List(ctx, metav1.ListOptions{}))
	p := newPods()
	p.watch = Must(watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	}))
	go func() {
		for event := range p.watch.ResultChan() {
			now := time.Now()
			p.lock.Do(func() {
				note(event)
				p.note(event, now)
			})
		}
		p.lock.Break(errors.New("the watch ended"))
	}()
	return p
}

func newPods() *Pods { return &Pods{ready: map[types.UID]bool{}} }

// Do f while no event is noted.
func (p *Pods) Do(f func()) { p.lock.Do(f) }

// Stop the watch.
func (p *Pods) Stop() { p.watch.Stop() }

func (p *Pods) note(event watch.Event, now time.Time) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return // an error ends the watch
	}
	next := p.last()
	next.At = now
	if _, known := p.ready[pod.UID]; !known && event.Type != watch.Deleted {
		next.Created++
	}
	if p.ready[pod.UID] {
		next.Ready--
	}
	if event.Type == watch.Deleted {
		delete(p.ready, pod.UID)
	} else {
		p.ready[pod.UID] = isReady(pod)
	}
	if p.ready[pod.UID] {
		next.Ready++
	}
	next.Exist = len(p.ready)
	p.Points = append(p.Points, next)
}

// isReady says whether a pod is Ready and not terminating.
func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (p *Pods) last() Point {
	if len(p.Points) == 0 {
		return Point{}
	}
	return p.Points[len(p.Points)-1]
}

// Now is the last point.
func (p *Pods) Now() (now Point) {
	p.lock.Do(func() { now = p.last() })
	return now
}

// Wait until the last point is as wanted.
func (p *Pods) Wait(ctx context.Context, what string, wanted func(Point) bool) {
	if err := Try(func() { p.lock.Wait(ctx, what, func() bool { return wanted(p.last()) }) }); err != nil {
		Check(fmt.Errorf("%w: there are %d pods, %d Ready", err, p.Now().Exist, p.Now().Ready))
	}
}

// First returns how long after a moment a point was first as wanted.
func (p *Pods) First(since time.Time, wanted func(Point) bool) (after time.Duration) {
	p.lock.Do(func() {
		for _, point := range slices.Backward(p.Points) {
			if point.At.Before(since) {
				break
			}
			if wanted(point) {
				after = point.At.Sub(since)
			}
		}
	})
	return after
}
