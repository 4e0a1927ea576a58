package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

// bench is a cluster with the Pod2 controller.
type bench struct {
	report
	*measure.Cluster
	workloads *dynamic.DynamicClient
	// controller serves all namespaces. base serves an empty one: its memory is the
	// memory of a controller without pods.
	controller, base *measure.Controller
	kubeconfig       string // of these controllers
	kruiseKubeconfig string
	running          []*measure.Process          // programs of the peer that is measured
	components       map[string]*measure.Process // without the controller, because it is restarted
	namespaces       int
	speed            *measure.Speed
	// begun, if not nil, is called when the next pods are requested.
	begun func()
}

// components are the programs that share the cores, by the names of their processes. Only
// pod2Controller and thisProgram belong to this project.
var components = []string{apiServer, "etcd", controllerManager, "kube-scheduler", "kwok-controller", pod2Controller, peerPrograms, thisProgram}

const (
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	pod2Controller    = "pod2-controller"
	peerPrograms      = "programs of the peer"
	thisProgram       = "client and observer"
)

func (b *bench) startController(ctx context.Context, env []string, args ...string) *measure.Controller {
	return b.StartController(ctx, b.kubeconfig, env, args...)
}

func (b *bench) findComponents() {
	b.components = map[string]*measure.Process{thisProgram: measure.Self()}
	for _, name := range components {
		if name != pod2Controller && name != peerPrograms && name != thisProgram {
			b.components[name] = measure.Find(b.Dir, name)
		}
	}
}

// processes of a component.
func (b *bench) processes(component string) []*measure.Process {
	switch component {
	case pod2Controller:
		return []*measure.Process{b.controller.Process}
	case peerPrograms:
		return b.running
	}
	return []*measure.Process{b.components[component]}
}

// computed returns the CPU seconds of each component so far.
func (b *bench) computed() map[string]float64 {
	computed := map[string]float64{}
	for _, name := range components {
		for _, process := range b.processes(name) {
			computed[name] += process.CPU().Seconds()
		}
	}
	return computed
}

func (b *bench) newNamespace(ctx context.Context) string {
	b.namespaces++
	ns := fmt.Sprintf("bench-%d", b.namespaces)
	b.NewNamespace(ctx, ns)
	return ns
}

// newNetwork returns once pods can use the Network.
func (b *bench) newNetwork(ctx context.Context, ns, network string, i int) {
	networks := b.Sample.SamplecrdV1().Networks(ns)
	measure.Must(networks.Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: network},
		Spec:       samplecrdv1.NetworkSpec{CIDR: fmt.Sprintf("10.%d.0.0/16", 100+i), ReuseDelaySeconds: ptr.To(int32(0))},
	}, metav1.CreateOptions{}))
	measure.Until(ctx, 100*time.Millisecond, "Network "+network, func() bool {
		return measure.Must(networks.Get(ctx, network, metav1.GetOptions{})).Status.Capacity > 0
	})
}
