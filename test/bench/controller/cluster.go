package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

// podsPerNode is the capacity of a KWOK node.
const podsPerNode = 110

// bench is a cluster with the Pod2 controller.
type bench struct {
	report
	*measure.Cluster
	workloads *dynamic.DynamicClient
	// controller serves all namespaces. base serves an empty one: its memory is the
	// memory of a controller without pods.
	controller, base *measure.Controller
	components       map[string]*measure.Process // without the controller, because it is restarted
	namespaces       int
	// begun, if not nil, is called when the next pods are requested.
	begun func()
}

// components are the programs that share the cores, by the names of their processes. Only
// pod2Controller and thisProgram belong to this project.
var components = []string{apiServer, "etcd", "kube-controller-manager", "kube-scheduler", "kwok-controller", pod2Controller, thisProgram}

const (
	apiServer      = "kube-apiserver"
	pod2Controller = "pod2-controller"
	thisProgram    = "client and observer"
)

func (b *bench) serviceAccountKubeconfig() string {
	return filepath.Join(b.Dir, "service-account.kubeconfig")
}

// writeServiceAccountKubeconfig lets the Pod2 controller run as it does when it is installed.
// The controllers of kube-controller-manager also run as service accounts here. For a user
// in system:masters, no rights are looked up.
func (b *bench) writeServiceAccountKubeconfig(ctx context.Context) {
	day := int64(24 * time.Hour / time.Second)
	token := measure.Must(b.Kube.CoreV1().ServiceAccounts("pod2-system").CreateToken(ctx, "pod2-controller",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{}))
	config := measure.Must(clientcmd.LoadFromFile(b.Kubeconfig()))
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	measure.Check(clientcmd.WriteToFile(*config, b.serviceAccountKubeconfig()))
}

func (b *bench) startController(ctx context.Context, env []string, args ...string) *measure.Controller {
	return b.StartController(ctx, b.serviceAccountKubeconfig(), env, args...)
}

func (b *bench) findComponents() {
	b.components = map[string]*measure.Process{thisProgram: measure.Self()}
	for _, name := range components {
		if name != pod2Controller && name != thisProgram {
			b.components[name] = measure.Find(b.Dir, name)
		}
	}
}

// process of a component.
func (b *bench) process(component string) *measure.Process {
	if component == pod2Controller {
		return b.controller.Process
	}
	return b.components[component]
}

// computed returns the CPU seconds of each component so far.
func (b *bench) computed() map[string]float64 {
	computed := map[string]float64{}
	for _, name := range components {
		computed[name] = b.process(name).CPU().Seconds()
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
