//go:build linux

package main

import (
	"context"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

const lives = "lives"

// measureLife measures the events of an agent's watch from the creation of a pod to its end,
// as averages: their number, the bytes of their pods in protobuf, and the events that change
// the agent's state. The controller creates a Pod2 on a Network, on KWOK's nodes, and the
// Pod2 is deleted.
func (b *bench) measureLife(ctx context.Context) measure.Results {
	b.NewNamespace(ctx, lives)
	// The controller serves only this namespace: this program makes the Networks of the others.
	controller := b.StartController(ctx, b.Kubeconfig(), nil, "--namespace="+lives)
	defer controller.Stop()
	var events, bytes, counts float64
	type known struct {
		pod    dataplane.Pod
		counts bool
	}
	pods := map[types.UID]known{}
	watched := b.WatchPods(ctx, lives, func(event watch.Event) {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return
		}
		var now known
		if event.Type != watch.Deleted {
			now.pod, now.counts = dataplane.PodOf(pod)
		}
		events++
		bytes += float64(pod.Size())
		if !reflect.DeepEqual(now, pods[pod.UID]) {
			counts++
		}
		pods[pod.UID] = now
	})
	defer watched.Stop()
	down := b.lab.nodes[0].agent.down.Load()
	measure.Must(b.Sample.SamplecrdV1().Networks(lives).Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: "lives"}, Spec: samplecrdv1.NetworkSpec{CIDR: "172.16.0.0/16"}}, metav1.CreateOptions{}))
	web := measure.Must(b.Sample.SamplecrdV1().Pod2s(lives).Create(ctx, &samplecrdv1.Pod2{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: samplecrdv1.Pod2Spec{Replicas: ptr.To(int32(b.Replicas)), Networks: []samplecrdv1.Pod2Network{{Name: "lives"}}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.10"}}},
		}},
	}, metav1.CreateOptions{}))
	watched.Wait(ctx, "all pods are Ready", func(p measure.Point) bool { return p.Ready == b.Replicas })
	measure.Check(b.Sample.SamplecrdV1().Pod2s(lives).Delete(ctx, web.Name, *metav1.NewPreconditionDeleteOptions(string(web.UID))))
	watched.Wait(ctx, "all pods are gone", func(p measure.Point) bool { return p.Exist == 0 })
	time.Sleep(time.Second)
	r, n := measure.Results{}, float64(b.Replicas)
	r.Add(events/n, "events")
	r.Add(bytes/n, "bytes")
	r.Add(counts/n, "events that count")
	r.Add(float64(b.lab.nodes[0].agent.down.Load()-down)/n, "received")
	return r
}
