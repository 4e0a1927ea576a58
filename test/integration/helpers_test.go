//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/spec"
)

// pod2 is a manifest of a Pod2 with these fields and a template.
func pod2(name, spec string) string { return "---" + fmt.Sprintf(pod2Manifest, name, ", "+spec) }

func getPod2(t *testing.T, namespace, name string) *v1.Pod2 {
	t.Helper()
	p, err := sample.SamplecrdV1().Pod2s(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func patchPod2(t *testing.T, namespace, name, patch string) {
	t.Helper()
	run(t, namespace, "patch", "pod2", name, "--type=merge", "-p", patch)
}

// setVersion changes the part of the template that version reads from a pod.
func setVersion(t *testing.T, namespace, name, version string) {
	t.Helper()
	patchPod2(t, namespace, name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"example.com/version":%q}}}}}`, version))
}

func version(pod *corev1.Pod) string { return pod.Annotations["example.com/version"] }

// waitReplicas waits for status.replicas, which is written after the pods.
func waitReplicas(t *testing.T, namespace, name string, want int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("Pod2 %s has %d replicas", name, want), func(ctx context.Context) (string, error) {
		p, err := sample.SamplecrdV1().Pod2s(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || p.Status.Replicas == want && p.Status.ObservedGeneration == p.Generation {
			return "", err
		}
		return fmt.Sprintf("status.replicas is %d at generation %d", p.Status.Replicas, p.Status.ObservedGeneration), nil
	})
}

func listPods(t *testing.T, namespace string) map[string]*corev1.Pod {
	t.Helper()
	list, err := kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods
}

// uids returns the UID of each pod, which changes when the pod is recreated.
func uids(t *testing.T, namespace string) map[string]string {
	t.Helper()
	result := map[string]string{}
	for name, pod := range listPods(t, namespace) {
		result[name] = string(pod.UID)
	}
	return result
}

// hold keeps deleted pods terminating until release.
func hold(t *testing.T, namespace string, pods ...string) {
	t.Helper()
	run(t, namespace, append([]string{"patch", "--type=merge", "-p", `{"metadata":{"finalizers":["test.example.com/hold"]}}`, "pod"}, pods...)...)
}

func release(t *testing.T, namespace string, pods ...string) {
	t.Helper()
	run(t, namespace, append([]string{"patch", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`, "pod"}, pods...)...)
}

// fail acts like a kubelet that evicts a pod.
func fail(t *testing.T, namespace, pod string) {
	t.Helper()
	_, err := kube.CoreV1().Pods(namespace).Patch(t.Context(), pod, types.MergePatchType,
		[]byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

func available(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || attachment.Over(pod) {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// sharedAddress checks S1 at one moment. It names two live pods with one address, whichever
// prefix lengths they publish.
func sharedAddress(pods map[string]*corev1.Pod) string {
	return spec.SharedAddress(slices.Collect(maps.Values(pods)))
}

// addressOn returns the address that a pod publishes on a Network, "" for none.
func addressOn(pod *corev1.Pod, network string) string {
	if a, ok := attachment.Published(pod)[network]; ok {
		return a.Address.Addr().String()
	}
	return ""
}

// ledgerDiffers compares the Bound entries of all AddressBlocks with the addresses that
// live pods publish.
func ledgerDiffers(t *testing.T, namespace string) string {
	t.Helper()
	blocks, err := sample.SamplecrdV1().AddressBlocks(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	in, on := map[string]string{}, map[string]string{}
	for _, block := range blocks.Items {
		for _, e := range block.Spec.Entries {
			if e.State == "Bound" {
				in[block.Spec.Network+" "+e.Address] += e.Pod
			}
		}
	}
	for name, pod := range listPods(t, namespace) {
		for network, a := range attachment.Published(pod) {
			if !attachment.Over(pod) {
				on[network+" "+a.Address.Addr().String()] += name
			}
		}
	}
	if render(in) != render(on) {
		return "the AddressBlocks have\n" + render(in) + "\npods publish\n" + render(on)
	}
	return ""
}

// waitLog waits for a text in the controller's log.
func (c *controller) waitLog(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the log has "+text, func(context.Context) (string, error) {
		if !strings.Contains(c.log.String(), text) {
			return "it says\n" + tail(c.log.String(), 5), nil
		}
		return "", nil
	})
}
