package main

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/bench/measure"
)

// mostKept is the number of replicas that are deleted to see which keep their addresses.
const mostKept = 40

// keeps measures how many replicas of a workload get their addresses again after all were
// deleted at once. For a CNI plugin they belong to a StatefulSet, because some plugins keep the
// addresses of its replicas only.
func (b *bench) keeps(ctx context.Context, a allocator, n int, part measure.Results) {
	ns := b.newNamespace(ctx)
	plugin, end := a.begin(ctx, b, ns)
	defer end()
	add := func(pods []corev1.Pod) (addresses map[string]string, sandboxes []int) {
		var lock sync.Mutex
		addresses, sandboxes = map[string]string{}, make([]int, len(pods))
		measure.Parallel(len(pods), func(i int) {
			address, _, failures := plugin.add(ctx, &pods[i])
			lock.Lock()
			defer lock.Unlock()
			addresses[pods[i].Name], sandboxes[i] = address, failures
		})
		return addresses, sandboxes
	}
	sets := contender{name: statefulSet, workload: statefulSetKind, annotations: map[string]any{"k8s.v1.cni.cncf.io/networks": ns},
		spec: map[string]any{"selector": map[string]any{"matchLabels": labels}, "podManagementPolicy": "Parallel"}}
	b.recreate(ctx, sets, ns, n, part, func(pods []corev1.Pod) (map[string]string, func()) {
		addresses, sandboxes := add(pods)
		return addresses, func() {
			measure.Parallel(len(pods), func(i int) {
				_, _, err := plugin.call(ctx, "DEL", &pods[i], sandboxes[i])
				measure.Check(err)
			})
		}
	})
}

// pod2Keeps is keeps for Pod2.
func (b *bench) pod2Keeps(ctx context.Context, n int, part measure.Results) {
	ns := b.newNamespace(ctx)
	b.newNetwork(ctx, ns, "blue", 0)
	workload := contender{name: pod2All, networks: []string{"blue"}, workload: pod2Kind}
	b.recreate(ctx, workload, ns, n, part, func(pods []corev1.Pod) (map[string]string, func()) {
		addresses := map[string]string{}
		for _, pod := range pods {
			published := measure.Must(attachment.ParseAddresses(pod.Annotations[samplecrdv1.AddressesAnnotation]))
			addresses[pod.Name] = published["blue"].Address.String()
		}
		return addresses, func() {}
	})
}

// recreate creates a workload with n replicas, and deletes all its pods at once. addresses returns
// the addresses of running pods, by name, and a function for the end of these pods.
func (b *bench) recreate(ctx context.Context, workload contender, ns string, n int, part measure.Results, addresses func([]corev1.Pod) (map[string]string, func())) {
	watched := b.WatchPods(ctx, ns, func(watch.Event) {})
	defer watched.Stop()
	b.create(ctx, workload, ns, n)
	list := func(created int) []corev1.Pod {
		watched.Wait(ctx, "all pods are Ready", func(p measure.Point) bool { return p.Ready == n && p.Created == created })
		return measure.Must(b.Kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})).Items
	}
	before, end := addresses(list(n))
	end()
	b.deleteRaw(ctx, ns)
	after, end := addresses(list(2 * n))
	kept := 0
	for pod, address := range before {
		if after[pod] == address {
			kept++
		}
	}
	part.Add(100*float64(kept)/float64(n), "kept")
	end()
	b.delete(ctx, workload, ns)
	watched.Wait(ctx, "all pods are gone", gone)
}
