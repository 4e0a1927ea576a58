package main

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

// serving makes a world's API server have a version, and resources of the form
// group/version/resource.
func (w *world) serving(gitVersion string, resources ...string) {
	d := w.kube.Discovery().(*fakediscovery.FakeDiscovery)
	d.FakedServerVersion = &version.Info{GitVersion: gitVersion}
	for _, resource := range resources {
		at := strings.LastIndex(resource, "/")
		w.kube.Resources = append(w.kube.Resources, &metav1.APIResourceList{
			GroupVersion: resource[:at], APIResources: []metav1.APIResource{{Name: resource[at+1:]}},
		})
	}
}

func installed(name, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": name}}
}

func agentPod(name string, exit int32) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: installed("pod2-agent", "pod2-agent")}
	p.Name = name
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "install-cni", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit}},
	}}
	return p
}

func TestInstallCheck(t *testing.T) {
	controller := &appsv1.Deployment{ObjectMeta: installed("pod2-controller", "pod2-system"), Status: appsv1.DeploymentStatus{ReadyReplicas: 2}}
	agent := &appsv1.DaemonSet{ObjectMeta: installed("pod2-agent", "pod2-agent"), Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, NumberReady: 1}}
	validating, mutating, definitions, multus := admissionGroup+"/validatingadmissionpolicies", admissionGroup+"/mutatingadmissionpolicies", pod2Group+"/networks", multusGroup+"/network-attachment-definitions"

	t.Run("an empty cluster", func(t *testing.T) {
		w := newWorld(t)
		w.serving("v1.30.2", validating)
		requireText(t, w.run("install", "--check"), `
CHECK                 STATE                FOUND                                                         REMEDY
Kubernetes version    Missing              v1.30.2                                                       upgrade to Kubernetes 1.33 or newer
Definitions           Missing              samplecrd.k8s.io/v1/networks                                  helm install pod2-crds charts/pod2-crds --namespace=pod2-system --create-namespace
Validating policies   OK                   admissionregistration.k8s.io/v1/validatingadmissionpolicies   -
Mutating policies     Missing (optional)   admissionregistration.k8s.io/v1/mutatingadmissionpolicies     upgrade to Kubernetes 1.36, or write the scheduling gate into pod templates
Controller            Missing              0 ready                                                       helm install pod2 charts/pod2 --namespace=pod2-system --create-namespace
Multus                Missing (optional)   k8s.cni.cncf.io/v1/network-attachment-definitions             install Multus, which moves packets
CNI plugin pod2-cni   Missing (optional)   on 0 of 0 nodes                                               helm upgrade pod2 charts/pod2 --namespace=pod2-system --reset-then-reuse-values --set agent.enabled=true
Ready agents          Missing (optional)   on 0 of 0 nodes                                               helm upgrade pod2 charts/pod2 --namespace=pod2-system --reset-then-reuse-values --set agent.enabled=true
! the cluster lacks Kubernetes version, Definitions, Controller
`)
	})
	t.Run("addresses only", func(t *testing.T) {
		w := newWorld(t, controller)
		w.serving("v1.36.3", validating, mutating, definitions)
		got := w.run("install", "--check")
		if w.status != 0 || !strings.Contains(got, "Missing (optional)") {
			t.Errorf("the status is %d, and the output\n%s", w.status, got)
		}
		got = w.run("install", "--check", "--data-plane")
		if w.status != 1 || !strings.Contains(got, "! the cluster lacks Multus, CNI plugin pod2-cni, Ready agents\n") {
			t.Errorf("the status is %d, and the output\n%s", w.status, got)
		}
	})
	t.Run("one agent fails", func(t *testing.T) {
		w := newWorld(t, controller, agent, agentPod("a", 0), agentPod("b", 1))
		w.serving("v1.36.3", validating, mutating, definitions, multus)
		got := w.run("install", "--check", "--data-plane")
		for _, want := range []string{"on 1 of 2 nodes", "kubectl --namespace=pod2-agent describe pod b", "! the cluster lacks CNI plugin pod2-cni, Ready agents\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing in\n%s", want, got)
			}
		}
	})
	t.Run("a part cannot be read", func(t *testing.T) {
		w := newWorld(t)
		w.serving("v1.36.3", validating, mutating, definitions)
		w.kube.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("you may not\nlist deployments")
		})
		got := w.run("install", "--check")
		if w.status != 1 || !strings.Contains(got, "Unknown") || !strings.Contains(got, "you may not list deployments\n") {
			t.Errorf("the status is %d, and the output\n%s", w.status, got)
		}
	})
	t.Run("without --check", func(t *testing.T) {
		w := newWorld(t)
		if got := w.run("install"); w.status != 1 || !strings.Contains(got, "add --check") {
			t.Errorf("the status is %d, and the output\n%s", w.status, got)
		}
	})
}

// The remedy continues the installation that exists.
func TestInstallAgent(t *testing.T) {
	byKubectl := appsv1.Deployment{ObjectMeta: installed("pod2-controller", "pod2-system")}
	byHelm := *byKubectl.DeepCopy()
	byHelm.Labels["app.kubernetes.io/managed-by"] = "Helm"
	for _, c := range []struct {
		controllers []appsv1.Deployment
		want        string
	}{
		{nil, "helm upgrade pod2 "}, {[]appsv1.Deployment{byHelm}, "helm upgrade pod2 "}, {[]appsv1.Deployment{byKubectl}, "kubectl apply "},
	} {
		if got := installAgent(observed{controllers: c.controllers}); !strings.HasPrefix(got, c.want) {
			t.Errorf("%d controllers: %s, want %s", len(c.controllers), got, c.want)
		}
	}
}

// Each state of each part has its finding.
func TestFindings(t *testing.T) {
	whole := observed{
		version: "v1.36.3+k3s1", served: map[string]bool{},
		controllers: []appsv1.Deployment{{Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}},
		agents:      []appsv1.DaemonSet{{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, NumberReady: 1}}},
		agentPods:   []corev1.Pod{*agentPod("a", 0)},
	}
	for _, resource := range []string{"admissionregistration.k8s.io/v1/validatingadmissionpolicies", "admissionregistration.k8s.io/v1/mutatingadmissionpolicies", "samplecrd.k8s.io/v1/networks", "k8s.cni.cncf.io/v1/network-attachment-definitions"} {
		whole.served[resource] = true
	}
	for _, f := range findingsOf(whole) {
		if f.state != stateOK || f.remedy != "" {
			t.Errorf("of a whole cluster: %+v", f)
		}
	}
	for name, c := range map[string]struct {
		change func(*observed)
		check  string
		want   state
	}{
		"old":                {func(o *observed) { o.version = "v1.32.9" }, "Kubernetes version", stateMissing},
		"oldest allowed":     {func(o *observed) { o.version = "v1.33.0-gke.1" }, "Kubernetes version", stateOK},
		"not a version":      {func(o *observed) { o.version = "main" }, "Kubernetes version", stateUnknown},
		"no definitions":     {func(o *observed) { o.served = nil }, "Definitions", stateMissing},
		"discovery fails":    {func(o *observed) { o.served, o.servedErr = nil, errors.New("x") }, "Multus", stateUnknown},
		"no controller":      {func(o *observed) { o.controllers = nil }, "Controller", stateMissing},
		"controller crashes": {func(o *observed) { o.controllers = make([]appsv1.Deployment, 1) }, "Controller", stateMissing},
		"no agent":           {func(o *observed) { o.agents = nil }, "Ready agents", stateMissing},
		"no node":            {func(o *observed) { o.agents = make([]appsv1.DaemonSet, 1) }, "Ready agents", stateMissing},
		"no plugin":          {func(o *observed) { o.agentPods = nil }, "CNI plugin pod2-cni", stateMissing},
	} {
		o := whole
		c.change(&o)
		found := false
		for _, f := range findingsOf(o) {
			if f.check == c.check {
				found = true
				if f.state != c.want || (f.remedy == "") != (c.want == stateOK) {
					t.Errorf("%s: %+v, want %s", name, f, c.want)
				}
			}
		}
		if !found {
			t.Errorf("%s: the check %s is missing", name, c.check)
		}
	}
}
