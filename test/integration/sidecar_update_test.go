//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const proxyParts = `initContainers: [{name: native, image: "registry.k8s.io/pause:3.9", restartPolicy: Always}], containers: [{name: plain, image: "registry.k8s.io/pause:3.9"}]`

// setSidecarImage changes the images of proxyParts.
func setSidecarImage(t *testing.T, ns, image string) {
	t.Helper()
	run(t, ns, "patch", "sidecar", "mesh", "--type=json", "-p", fmt.Sprintf(
		`[{"op":"replace","path":"/spec/initContainers/0/image","value":%q},{"op":"replace","path":"/spec/containers/0/image","value":%[1]q}]`, image))
}

// serving says whether a pod is Ready and runs the images of its spec.
func serving(pod *corev1.Pod) bool {
	if !available(pod) {
		return false
	}
	is := map[string]string{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		is[s.Name] = s.Image
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if is[c.Name] != c.Image {
			return false
		}
	}
	return true
}

// atLeast follows the pods of a namespace: at no moment may fewer serve.
func atLeast(t *testing.T, ns string, least int) *follower {
	t.Helper()
	return follow(t, ns, func(pods map[string]*corev1.Pod) string {
		n := 0
		for _, pod := range pods {
			if serving(pod) {
				n++
			}
		}
		if n < least {
			return fmt.Sprintf("%d of %d pods serve, want at least %d", n, len(pods), least)
		}
		return ""
	})
}

// The images of a Sidecar reach the running pods of a Deployment, maxUnavailable at a time.
// No pod is recreated.
func TestSidecarImageInPlace(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	create(t, ns, sidecar("mesh", proxyParts+", updateStrategy: {maxUnavailable: 2}")+network("blue", `{cidr: 10.0.0.0/24}`)+workload("Deployment", "web", "replicas: 5"))
	waitReady(t, ns, "sidecar/mesh")
	run(t, ns, "rollout", "status", "deployment/web", "--timeout="+patience.String())
	waitSidecar(t, ns, "mesh", sidecarCounts, "5 5 5 1")
	before := uids(t, ns)
	f := atLeast(t, ns, 3)
	setSidecarImage(t, ns, "registry.k8s.io/pause:3.10")
	waitSidecar(t, ns, "mesh", sidecarCounts, "5 5 5 2")
	f.seenAll(t, ns)
	requireSamePods(t, ns, before)
	for name, pod := range listPods(t, ns) {
		if got := pod.Annotations["samplecrd.k8s.io/sidecars"]; got != "mesh=2/0/1/1" || !serving(pod) {
			t.Errorf("%s has %s, serves: %t", name, got, serving(pod))
		}
	}
}

// The images of a Sidecar and those of the template reach replicas of a Pod2 at the same
// time. Together they stay within the bounds of the Pod2.
func TestSidecarImageWithinABoundOfAPod2(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+
		strings.Replace(sidecar("mesh", proxyParts+`, updateStrategy: {maxUnavailable: "100%"}`), "app: web", "samplecrd.k8s.io/pod2: web", 1))
	waitReady(t, ns, "sidecar/mesh", "network/blue")
	create(t, ns, pod2("web", "replicas: 4"+blue))
	waitReady(t, ns, "pod2/web")
	waitSidecar(t, ns, "mesh", sidecarCounts, "4 4 4 1")
	before, _ := running(t, ns)
	f := atLeast(t, ns, 3)
	setSidecarImage(t, ns, "registry.k8s.io/pause:3.10")
	setImage(t, ns, "web", "registry.k8s.io/pause:3.11")
	waitSidecar(t, ns, "mesh", sidecarCounts, "4 4 4 2")
	waitUpdatedInPlace(t, ns, 4, before)
	f.seenAll(t, ns)
}

// partition and paused keep the images of pods. A change of them alone is no new
// generation for pods.
func TestSidecarPartition(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	create(t, ns, sidecar("mesh", proxyParts+", updateStrategy: {paused: true}")+network("blue", `{cidr: 10.0.0.0/24}`)+workload("Deployment", "web", "replicas: 3"))
	waitReady(t, ns, "sidecar/mesh")
	run(t, ns, "rollout", "status", "deployment/web", "--timeout="+patience.String())
	setSidecarImage(t, ns, "registry.k8s.io/pause:3.10")
	waitSidecar(t, ns, "mesh", sidecarCounts, "3 0 3 2")
	for _, step := range []struct{ strategy, want string }{
		{`{"paused":false,"partition":2}`, "3 1 3 2"},
		{`{"partition":1}`, "3 2 3 2"},
		{`{"partition":0}`, "3 3 3 2"},
	} {
		run(t, ns, "patch", "sidecar", "mesh", "--type=merge", "-p", `{"spec":{"updateStrategy":`+step.strategy+`}}`)
		waitSidecar(t, ns, "mesh", sidecarCounts, step.want)
	}
}

// An image that does not exist stops the update after maxUnavailable pods. The image after
// it reaches the broken pod first.
func TestSidecarImageThatDoesNotExist(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	create(t, ns, sidecar("mesh", proxyParts)+network("blue", `{cidr: 10.0.0.0/24}`)+workload("Deployment", "web", "replicas: 3"))
	waitReady(t, ns, "sidecar/mesh")
	run(t, ns, "rollout", "status", "deployment/web", "--timeout="+patience.String())
	f := atLeast(t, ns, 2)
	setSidecarImage(t, ns, "registry.invalid/proxy:2")
	waitSidecar(t, ns, "mesh", sidecarCounts, "3 1 2 2")
	setSidecarImage(t, ns, "registry.k8s.io/pause:3.10")
	waitSidecar(t, ns, "mesh", sidecarCounts, "3 3 3 3")
	f.seenAll(t, ns)
}
