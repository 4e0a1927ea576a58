package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

const (
	rawWorkers = 16
	// rawGate stands for ours: who may write that is for a policy to say.
	rawGate = "bench.example.com/gate"
)

// createRaw creates pods, sixteen at once. Twice: each waits at a gate, and as soon as it
// is there one update lifts that and adds two annotations of the size of ours.
func (b *bench) createRaw(ctx context.Context, ns string, n int, twice bool) error {
	pods := b.kube.CoreV1().Pods(ns)
	return inParallel(n, func(i int) error {
		t := template()
		pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		pod.Name = podName(i)
		if twice {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: rawGate}}
		}
		made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		if err != nil || !twice {
			return err
		}
		made.Spec.SchedulingGates = nil
		made.Annotations = map[string]string{
			"bench.example.com/addresses": `{"blue":{"address":"10.0.255.255/16","gateway":"10.0.0.1"}}`,
			"bench.example.com/networks":  `[{"name":"blue","ips":["10.0.255.255/16"]}]`,
		}
		_, err = pods.Update(ctx, made, metav1.UpdateOptions{})
		return err
	})
}

func deleteRaw(ctx context.Context, b *bench, ns string) error {
	pods := b.kube.CoreV1().Pods(ns)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return inParallel(len(list.Items), func(i int) error {
		return pods.Delete(ctx, list.Items[i].Name, *metav1.NewPreconditionDeleteOptions(string(list.Items[i].UID)))
	})
}

func podName(i int) string { return fmt.Sprintf("%s-%d", name, i) }

func inParallel(n int, do func(i int) error) error {
	var wait sync.WaitGroup
	next := make(chan int)
	errs := make([]error, rawWorkers)
	for w := range rawWorkers {
		wait.Go(func() {
			for i := range next {
				errs[w] = errors.Join(errs[w], do(i))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
	return errors.Join(errs...)
}

// newNamespace returns one in which pods can be created.
func (b *bench) newNamespace(ctx context.Context) (string, error) {
	b.namespaces++
	ns := fmt.Sprintf("bench-%d", b.namespaces)
	_, err := b.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return ns, poll(ctx, "the account that pods run as", func(ctx context.Context) (bool, error) {
		list, err := b.kube.CoreV1().ServiceAccounts(ns).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) > 0, err
	})
}

// newNetwork returns once the Network can serve.
func (b *bench) newNetwork(ctx context.Context, ns, network string, i int) error {
	zero := int32(0)
	_, err := b.sample.SamplecrdV1().Networks(ns).Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: network},
		Spec:       samplecrdv1.NetworkSpec{CIDR: fmt.Sprintf("10.%d.0.0/16", 100+i), ReuseDelaySeconds: &zero},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return poll(ctx, "Network "+network, func(ctx context.Context) (bool, error) {
		n, err := b.sample.SamplecrdV1().Networks(ns).Get(ctx, network, metav1.GetOptions{})
		return err == nil && n.Status.Capacity > 0, err
	})
}
