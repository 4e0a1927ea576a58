//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/test/spec"
)

const addressSlice = `
apiVersion: samplecrd.k8s.io/v1
kind: AddressSlice
metadata: {name: blue-7, labels: {samplecrd.k8s.io/network: blue}}
spec: {locations: {10.0.0.2: 192.0.2.66}}
`

// waitLocated waits until the AddressSlices of a Network have the addresses of its pods, and no
// others.
func waitLocated(t *testing.T, namespace, network string) {
	t.Helper()
	eventually(t, "AddressSlices have all addresses", func(ctx context.Context) (string, error) {
		n, err := sample.SamplecrdV1().Networks(namespace).Get(ctx, network, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		slices, err := sample.SamplecrdV1().AddressSlices(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		blocks, err := sample.SamplecrdV1().AddressBlocks(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		return spec.AddressSlicesDone(&spec.Cluster{
			AddressSlices: pointers(slices.Items), Blocks: pointers(blocks.Items), Pods: pointers(pods.Items), Nodes: pointers(nodes.Items),
		}, n), nil
	})
}

// AddressSlices follow the pods: 120 start, some are replaced, and then all
// are scaled down. Not parallel: the controller serves all namespaces.
func TestAddressSlicesFollowThePods(t *testing.T) {
	install(t)
	ns := newNamespace(t)
	startController(t, "", "--kubeconfig", asServiceAccount(t))
	create(t, ns, network("blue", `{cidr: 10.60.0.0/16}`)+pod2("web", `replicas: 120, networks: [{name: blue}]`))
	waitReplicas(t, ns, "web", 120)
	run(t, ns, "wait", "pod2/web", "--for=jsonpath={.status.readyReplicas}=120", "--timeout=60s")
	waitLocated(t, ns, "blue")
	if got := names(run(t, ns, "get", "addressslices", "-o", "name")); got != "blue-0 blue-1 blue-2" {
		t.Errorf("got %s", got)
	}

	run(t, ns, "delete", "pod", "web-1", "web-60", "--wait=false")
	patchPod2(t, ns, "web", `{"spec":{"replicas":30}}`)
	waitReplicas(t, ns, "web", 30)
	waitLocated(t, ns, "blue")
	nodes := run(t, "kube-system", "get", "addressslices", "-l", "samplecrd.k8s.io/nodes=true", "-o", `jsonpath={.items[*].spec.locations}`)
	address := strings.Fields(run(t, "", "get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`))[0]
	if want := fmt.Sprintf("%q:%q", address, address); !strings.Contains(nodes, want) {
		t.Errorf("the addresses of nodes are %s without %s", nodes, want)
	}
	patchPod2(t, ns, "web", `{"spec":{"replicas":0}}`)
	waitReplicas(t, ns, "web", 0)
	waitLocated(t, ns, "blue")
	if got := names(run(t, ns, "get", "addressslices", "-o", "name")); got != "blue-0" {
		t.Errorf("got %s", got)
	}
}

// names are those of objects, as kubectl get -o name prints them, on one line.
func names(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "/")
		all = append(all, name)
	}
	return strings.Join(all, " ")
}
