package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

// publications are the times when pods got their addresses, by name.
type publications struct {
	measure.Watched
	at map[string]time.Time
}

func (p *publications) note(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok || pod.Annotations[samplecrdv1.AddressesAnnotation] == "" {
		return
	}
	p.Do(func() {
		if p.at[pod.Name].IsZero() {
			p.at[pod.Name] = time.Now()
		}
	})
}

// wait until n pods have addresses, and return the time of the last.
func (p *publications) wait(ctx context.Context, n int) (last time.Time) {
	p.Wait(ctx, "all pods have addresses", func() bool { return len(p.at) == n })
	p.Do(func() { last = slices.MaxFunc(slices.Collect(maps.Values(p.at)), time.Time.Compare) })
	return last
}

// of returns the time when this pod got its address.
func (p *publications) of(ctx context.Context, pod string) (at time.Time) {
	p.Wait(ctx, "pod "+pod+" has an address", func() bool { return !p.at[pod].IsZero() })
	p.Do(func() { at = p.at[pod] })
	return at
}

// publish measures how Pod2 gives addresses to n pods: to the replicas of one Pod2, or to pods
// that sixteen clients create. Each client waits until its pod has the address, and the time of
// such a call is from the answer to the creation.
func (b *bench) publish(ctx context.Context, name string, n int, part measure.Results) {
	ns := b.newNamespace(ctx)
	b.newNetwork(ctx, ns, "blue", 0)
	published := &publications{at: map[string]time.Time{}}
	watched := b.WatchPods(ctx, ns, published.note)
	defer watched.Stop()
	b.waitQuiet(ctx)
	count, computed, begin := b.countWrites(pod2User), b.computed(), time.Now()
	workload := contender{name: name, networks: []string{"blue"}, workload: pod2Kind}
	if name == pod2All {
		b.create(ctx, workload, ns, n)
	} else {
		var lock sync.Mutex
		measure.Parallel(n, func(i int) {
			pod := rawPod(i)
			pod.Annotations = map[string]string{samplecrdv1.NetworksAnnotation: "blue"}
			measure.Must(b.Kube.CoreV1().Pods(ns).Create(ctx, pod, metav1.CreateOptions{}))
			created := time.Now()
			// The watch may be ahead of the answer.
			took := max(0, published.of(ctx, pod.Name).Sub(created))
			lock.Lock()
			defer lock.Unlock()
			part.Add(measure.Milliseconds(took), "call, ms")
		})
	}
	b.addAllocated(part, n, published.wait(ctx, n).Sub(begin), 0, computed)
	watched.Wait(ctx, "all pods are Ready", func(p measure.Point) bool { return p.Ready == n })
	b.waitQuiet(ctx)
	writes := count()
	part.Add(float64(writes.Sum(func(measure.Write) bool { return true }))/float64(n), "writes")
	part.Add(float64(writes.Sum(func(w measure.Write) bool { return w.Resource == "addressblocks" }))/float64(n), "blocks")
	if name == pod2All {
		b.delete(ctx, workload, ns)
	} else {
		b.deleteRaw(ctx, ns)
	}
	watched.Wait(ctx, "all pods are gone", gone)
}
