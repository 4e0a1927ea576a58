//go:build linux

package main

import (
	"context"
	"fmt"
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

// measureLife is what the watch of an agent sees of a pod from its creation to its end,
// each on average: the controller brings up a Pod2 on a Network, on KWOK's nodes, which is
// then deleted.
func (b *bench) measureLife(ctx context.Context) measure.Results {
	b.NewNamespace(ctx, lives)
	// It serves one namespace alone: the Networks of the others are ours.
	controller := b.StartController(ctx, b.Kubeconfig(), nil, "--namespace="+lives)
	defer controller.Stop()
	w := measure.Must(b.Kube.CoreV1().Pods(lives).Watch(ctx, metav1.ListOptions{LabelSelector: samplecrdv1.ManagedLabel + "=true"}))
	defer w.Stop()
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
	events, bytes, counts := b.follow(ctx, w, web)
	time.Sleep(time.Second)
	r, n := measure.Results{}, float64(b.Replicas)
	r.Add(float64(events)/n, "events")
	r.Add(float64(bytes)/n, "bytes")
	r.Add(float64(counts)/n, "events that count")
	r.Add(float64(b.lab.nodes[0].agent.down.Load()-down)/n, "received")
	return r
}

// follow counts events, the bytes of their pods in protobuf, and the events that change
// what an agent knows of the pod. It has the Pod2 deleted when all of its pods are Ready,
// and returns when none is left.
func (b *bench) follow(ctx context.Context, w watch.Interface, web *samplecrdv1.Pod2) (events, bytes, counts int) {
	ctx, cancel := context.WithTimeout(ctx, measure.Patience)
	defer cancel()
	type known struct {
		pod    dataplane.Pod
		counts bool
	}
	pods, ready, deleted := map[types.UID]known{}, map[types.UID]bool{}, false
	for !deleted || len(pods) > 0 {
		var event watch.Event
		select {
		case <-ctx.Done():
			measure.Check(fmt.Errorf("follow %d pods, of which %d are Ready: %w", len(pods), len(ready), ctx.Err()))
		case event = <-w.ResultChan():
		}
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			measure.Check(fmt.Errorf("follow pods: the watch ended with %v", event))
		}
		events++
		bytes += pod.Size()
		var now known
		if event.Type != watch.Deleted {
			now.pod, now.counts = dataplane.PodOf(pod)
		}
		if !reflect.DeepEqual(now, pods[pod.UID]) {
			counts++
		}
		pods[pod.UID] = now
		if event.Type == watch.Deleted {
			delete(pods, pod.UID)
		}
		if measure.IsReady(pod) {
			ready[pod.UID] = true
		}
		if !deleted && len(ready) == b.Replicas {
			deleted = true
			measure.Check(b.Sample.SamplecrdV1().Pod2s(lives).Delete(ctx, web.Name, *metav1.NewPreconditionDeleteOptions(string(web.UID))))
		}
	}
	return events, bytes, counts
}
