//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// life is what the watch of an agent sees of a pod from its creation to its end: each on
// average.
type life struct {
	pods   int
	events float64 // of the watch
	bytes  float64 // of its pods in them, in protobuf
	counts float64 // of the events, those that change what the agent knows of the pod
	wire   float64 // bytes that an agent received, as TLS has them
}

const lives = "lives"

// measureLife has the controller bring up a Pod2 on a Network, on KWOK's nodes, and takes
// it down again.
func (b *bench) measureLife(ctx context.Context) (err error) {
	l := &b.results.life
	l.pods = b.replicas
	if _, err := b.api.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lives}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a namespace: %w", err)
	}
	stop, err := b.startController(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := b.until(ctx, "the service account of the namespace", func(ctx context.Context) (bool, error) {
		_, err := b.api.kube.CoreV1().ServiceAccounts(lives).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}); err != nil {
		return err
	}
	w, err := b.api.kube.CoreV1().Pods(lives).Watch(ctx, metav1.ListOptions{LabelSelector: samplecrdv1.ManagedLabel + "=true"})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	defer w.Stop()
	down := b.lab.nodes[0].agent.down.Load()
	if _, err := b.api.sample.SamplecrdV1().Networks(lives).Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: "lives"}, Spec: samplecrdv1.NetworkSpec{CIDR: "172.16.0.0/16"}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a Network: %w", err)
	}
	web, err := b.api.sample.SamplecrdV1().Pod2s(lives).Create(ctx, &samplecrdv1.Pod2{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: samplecrdv1.Pod2Spec{Replicas: ptr.To(int32(l.pods)), Networks: []samplecrdv1.Pod2Network{{Name: "lives"}}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.10"}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a Pod2: %w", err)
	}
	if err := l.follow(ctx, w, b, web); err != nil {
		return err
	}
	time.Sleep(time.Second)
	n := float64(l.pods)
	l.events, l.bytes, l.counts = l.events/n, l.bytes/n, l.counts/n
	l.wire = float64(b.lab.nodes[0].agent.down.Load()-down) / n
	b.say("a pod's life: %.1f events, %.0f bytes, %.1f that count, %.0f bytes on the wire", l.events, l.bytes, l.counts, l.wire)
	return nil
}

// follow counts events, and has the Pod2 deleted when all of its pods are Ready, until
// none is left.
func (l *life) follow(ctx context.Context, w watch.Interface, b *bench, web *samplecrdv1.Pod2) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	type known struct {
		pod    dataplane.Pod
		counts bool
	}
	pods, ready, deleted := map[types.UID]known{}, map[types.UID]bool{}, false
	for {
		var event watch.Event
		select {
		case <-ctx.Done():
			return fmt.Errorf("follow %d pods, of which %d are Ready: %w", len(pods), len(ready), ctx.Err())
		case event = <-w.ResultChan():
		}
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("follow pods: the watch ended with %v", event)
		}
		l.events++
		l.bytes += float64(pod.Size())
		var now known
		if event.Type != watch.Deleted {
			now.pod, now.counts = dataplane.PodOf(pod)
		}
		if !reflect.DeepEqual(now, pods[pod.UID]) {
			l.counts++
		}
		pods[pod.UID] = now
		if event.Type == watch.Deleted {
			delete(pods, pod.UID)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ready[pod.UID] = true
			}
		}
		if !deleted && len(ready) == l.pods {
			deleted = true
			if err := b.api.sample.SamplecrdV1().Pod2s(lives).Delete(ctx, web.Name, *metav1.NewPreconditionDeleteOptions(string(web.UID))); err != nil {
				return fmt.Errorf("delete the Pod2: %w", err)
			}
		}
		if deleted && len(pods) == 0 {
			return nil
		}
	}
}

func (b *bench) until(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, done); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// startController serves one namespace alone: the Networks of the others are ours.
func (b *bench) startController(ctx context.Context) (stop func(), err error) {
	log, err := os.Create(filepath.Join(b.dir, "controller.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(b.root, "bin/pod2-controller"), "--kubeconfig="+b.api.kubeconfig(),
		"--namespace="+lives, "--metrics-bind-address=0", "--health-probe-bind-address=0")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}, nil
}
