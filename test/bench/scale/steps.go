package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

const namespace = "scale"

func name(i int) string { return fmt.Sprintf("w%d", i) }

// createNetwork creates the Network of the i-th Pod2: an IPv4 /14, or an IPv6 /64.
func (b *bench) createNetwork(ctx context.Context, i int) {
	cidr := fmt.Sprintf("10.%d.0.0/14", 4*i)
	if i%2 == 1 {
		cidr = fmt.Sprintf("fd00:%x::/64", i)
	}
	networks := b.Sample.SamplecrdV1().Networks(namespace)
	measure.Must(networks.Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: name(i)}, Spec: samplecrdv1.NetworkSpec{CIDR: cidr},
	}, metav1.CreateOptions{}))
}

func (b *bench) createPod2(ctx context.Context, i int) {
	labels := map[string]string{"app": name(i)}
	measure.Must(b.Sample.SamplecrdV1().Pod2s(namespace).Create(ctx, &samplecrdv1.Pod2{
		ObjectMeta: metav1.ObjectMeta{Name: name(i)},
		Spec: samplecrdv1.Pod2Spec{
			Replicas:       ptr.To(int32(b.Each())),
			UpdateStrategy: samplecrdv1.Pod2UpdateStrategy{RollingUpdate: &samplecrdv1.Pod2RollingUpdate{MaxUnavailable: ptr.To(intstr.FromString("25%"))}},
			Networks:       []samplecrdv1.Pod2Network{{Name: name(i)}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken: ptr.To(false),
					Containers:                   []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.9"}},
				},
			},
		},
	}, metav1.CreateOptions{}))
}

// createAll creates all Pod2s at once, and samples the memory of the programs while the pods
// become Ready.
func (b *bench) createAll(ctx context.Context) {
	n := b.Each() * b.Workloads
	begin := time.Now()
	b.step(ctx, "all created", n, func() {
		for i := range b.Workloads {
			b.createNetwork(ctx, i)
			b.createPod2(ctx, i)
		}
		for _, part := range append(growth(n), n) {
			now := b.fleet.wait(ctx, fmt.Sprintf("%d of %d pods are Ready", part, n), func(p measure.Point) bool { return p.Ready >= part })
			b.Grown = append(b.Grown, b.sample(ctx, now, time.Since(begin)))
		}
	})
	b.fleet.pods.Do(func() {
		b.P50, b.P99 = measure.PercentileOf(b.fleet.waits, 50), measure.PercentileOf(b.fleet.waits, 99)
		b.PerSecond = float64(n) / b.fleet.last.Sub(begin).Seconds()
	})
}

// growth returns the numbers of pods at which the memory is sampled, below n.
func growth(n int) (parts []int) {
	for _, part := range []int{1000, 2500, 5000, 10_000, 25_000, 50_000, 75_000} {
		if part < n {
			parts = append(parts, part)
		}
	}
	return parts
}

// coldStart is the start of a controller with all pods standing.
type coldStart struct {
	Ready, Synced float64 // s from its start: with full caches; with an empty queue
	Writes        int
}

// coldStart kills the controller and starts another.
func (b *bench) coldStart(ctx context.Context) {
	b.step(ctx, "controller killed and started", 0, func() {
		b.controller.Kill()
		b.startController(ctx)
		synced := b.controller.WaitSynced(ctx)
		b.Start = coldStart{Ready: b.controller.Ready.Sub(b.controller.Started).Seconds(), Synced: synced.Sub(b.controller.Started).Seconds()}
	})
	b.Start.Writes = b.Steps[len(b.Steps)-1].Writes
	b.fleet.check()
}

// deleteSome deletes pods at random, and kills the controller while it replaces them.
func (b *bench) deleteSome(ctx context.Context) {
	pods := b.Kube.CoreV1().Pods(namespace)
	all := b.list(ctx)
	had := b.fleet.pods.Now().Created
	chosen := rand.New(rand.NewPCG(b.Seed, 0)).Perm(len(all))[:b.Deleted]
	b.step(ctx, "deleted at random, and replaced", b.Deleted, func() {
		measure.Parallel(len(chosen), func(i int) {
			pod := &all[chosen[i]]
			measure.Check(pods.Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID))))
			if i == len(chosen)/2 {
				b.controller.Kill()
				b.startController(ctx)
			}
		})
		b.fleet.wait(ctx, "all deleted pods are replaced", func(p measure.Point) bool { return p.Created == had+b.Deleted && p.Ready == len(all) })
	})
}

// updateInPlace changes the image of one Pod2, which has a tenth of all pods if there are ten.
func (b *bench) updateInPlace(ctx context.Context) {
	had := b.fleet.pods.Now().Created
	pod2s := b.Sample.SamplecrdV1().Pod2s(namespace)
	b.step(ctx, "updated in place", b.Each(), func() {
		web := measure.Must(pod2s.Get(ctx, name(0), metav1.GetOptions{}))
		web.Spec.Template.Spec.Containers[0].Image = "registry.k8s.io/pause:3.10"
		generation := measure.Must(pod2s.Update(ctx, web, metav1.UpdateOptions{})).Generation
		told := time.Now()
		measure.Until(ctx, time.Second, "the update of all pods", func() bool {
			status := measure.Must(pod2s.Get(ctx, name(0), metav1.GetOptions{})).Status
			if time.Since(told) > 30*time.Second {
				told = time.Now()
				measure.Say("%d of %d pods are updated, %d available", status.UpdatedReplicas, b.Each(), status.AvailableReplicas)
			}
			b.fleet.check()
			return status.ObservedGeneration == generation && int(status.UpdatedReplicas) == b.Each() && int(status.AvailableReplicas) == b.Each()
		})
	})
	if now := b.fleet.pods.Now().Created; now != had {
		measure.Check(fmt.Errorf("the update in place created %d pods", now-had))
	}
}

// compareAll lists all pods, and compares their addresses with those that the watch saw first.
func (b *bench) compareAll(ctx context.Context) {
	b.fleet.pods.Do(func() {
		for i, pod := range b.list(ctx) {
			before := len(b.fleet.of)
			if b.fleet.add(&pod); len(b.fleet.of) != before {
				b.fleet.fail(fmt.Errorf("pod %s has addresses that the watch has not seen", pod.Name))
			}
			b.AddressesOK = i + 1
		}
		if len(b.fleet.of) != b.AddressesOK {
			b.fleet.fail(fmt.Errorf("%d pods had addresses, and %d exist", len(b.fleet.of), b.AddressesOK))
		}
	})
	b.fleet.check()
}

func (b *bench) list(ctx context.Context) []corev1.Pod {
	return measure.Must(b.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})).Items
}

// deleteAll deletes all Pod2s. The garbage collector deletes their pods.
func (b *bench) deleteAll(ctx context.Context) {
	n := b.Each() * b.Workloads
	pod2s := b.Sample.SamplecrdV1().Pod2s(namespace)
	b.step(ctx, "all deleted", n, func() {
		for i := range b.Workloads {
			uid := measure.Must(pod2s.Get(ctx, name(i), metav1.GetOptions{})).UID
			measure.Check(pod2s.Delete(ctx, name(i), *metav1.NewPreconditionDeleteOptions(string(uid))))
		}
		b.fleet.wait(ctx, "all pods are gone", func(p measure.Point) bool { return p.Exist == 0 })
	})
}
