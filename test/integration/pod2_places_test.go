//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A replica has a wanted address by its ordinal. If another pod holds that address, or it
// is outside the CIDR, the replica waits with a reason, and the others run.
func TestWantedAddressesOfReplicas(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+gatedPod("holder", "blue=10.0.0.11"))
	waitReady(t, ns, "pod/holder")
	create(t, ns, pod2("web", `replicas: 4, networks: [{name: blue, addresses: [10.0.0.10, 10.0.0.11, 10.9.9.9]}]`))
	waitCondition(t, ns, "pod2/web", "Ready", "False WaitingForAddresses: web-1: ")
	waitCondition(t, ns, "pod/web-1", bound, "held by pod holder")
	waitCondition(t, ns, "pod/web-2", bound, "10.9.9.9")
	waitReady(t, ns, "pod/web-0", "pod/web-3")
	if got := addressOn(listPods(t, ns)["web-0"], "blue"); got != "10.0.0.10" {
		t.Errorf("web-0 has %s", got)
	}
	run(t, ns, "delete", "pod", "holder")
	patchPod2(t, ns, "web", `{"spec":{"networks":[{"name":"blue","addresses":["10.0.0.10","10.0.0.11"]}]}}`)
	waitReady(t, ns, "pod2/web")
	if got := addressOn(listPods(t, ns)["web-1"], "blue"); got != "10.0.0.11" {
		t.Errorf("web-1 has %s", got)
	}
}

// ownNode creates a Node that gets no pods of other tests.
func ownNode(t *testing.T, namespace, name string) {
	t.Helper()
	_, err := kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"test.example.com/of": namespace},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "test.example.com/of", Value: namespace, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Capacity:    corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10"), corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi")},
			Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10"), corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi")},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// Kubernetes removes the pods of a deleted Node after a minute. They come back on another
// Node, with name and address.
func TestNodeIsGone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	ownNode(t, ns, ns+"-a")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+strings.Replace(pod2("web", `replicas: 2`+blue), "spec: {containers:",
		fmt.Sprintf("spec: {nodeSelector: {test.example.com/of: %s}, tolerations: [{operator: Exists}], containers:", ns), 1))
	waitReady(t, ns, "pod2/web")
	before, nodes := render(addresses(t, ns)), run(t, ns, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
	if want := ns + "-a " + ns + "-a"; nodes != want {
		t.Fatalf("the replicas run on %s, want %s", nodes, want)
	}
	ownNode(t, ns, ns+"-b")
	run(t, ns, "delete", "node", ns+"-a")
	within(t, 2*patience, "the replicas run on another Node", func(context.Context) (string, error) { // pods are collected up to 80 s later
		got, err := kubectl("-n", ns, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
		if want := ns + "-b " + ns + "-b"; got != want {
			return "got " + got, err
		}
		return "", err
	})
	waitReady(t, ns, "pod2/web")
	waitAddresses(t, ns, before)
}

// A pod may still run if its node does not confirm its end. It keeps its name, and the
// condition has instructions for the user. When the node is marked as out of service, both
// its pods come back on another one, with name and address.
func TestNodeIsOutOfService(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	ownNode(t, ns, ns+"-a")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+strings.NewReplacer(
		"spec: {containers:", fmt.Sprintf("spec: {nodeSelector: {test.example.com/of: %s}, tolerations: [{key: test.example.com/of, operator: Exists}], terminationGracePeriodSeconds: 1, containers:", ns),
		"labels: {app: a}", `labels: {app: a}, annotations: {kwok.samplecrd.k8s.io/terminate: "false"}`,
	).Replace(pod2("web", `replicas: 2`+blue)))
	waitReady(t, ns, "pod2/web")
	before, first := render(addresses(t, ns)), uids(t, ns)
	ownNode(t, ns, ns+"-b")
	run(t, ns, "annotate", "node", ns+"-a", "kwok.samplecrd.k8s.io/ready=false")
	run(t, ns, "patch", "node", ns+"-a", "--subresource=status", "-p", `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`)

	run(t, ns, "delete", "pod", "web-0", "--wait=false")
	waitCondition(t, ns, "pod2/web", "Ready", "False NodeUnreachable: pod web-0 is stuck terminating: node "+ns+"-a has not confirmed that it stopped. If the node is permanently gone, "+
		"delete the Node, or taint it node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	if got := uids(t, ns); got["web-0"] != first["web-0"] {
		t.Errorf("web-0 was replaced by %s, while it may still run", got["web-0"])
	}
	run(t, ns, "taint", "node", ns+"-a", "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	eventually(t, "both replicas run on another Node", func(context.Context) (string, error) {
		got, err := kubectl("-n", ns, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
		if want := ns + "-b " + ns + "-b"; got != want {
			return "got " + got, err
		}
		return "", err
	})
	waitReady(t, ns, "pod2/web")
	waitAddresses(t, ns, before)
}
