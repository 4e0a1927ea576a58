//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A Sidecar gets another image. The kubelet replaces its container and its native sidecar in
// the running pod. It neither restarts the pod's own container nor runs the init container
// again.
func TestImageOfASidecar(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "sidecar")
	run(t, "", "label", "namespace", ns, "samplecrd.k8s.io/sidecars=enabled")
	create(t, ns, `
apiVersion: samplecrd.k8s.io/v1
kind: Sidecar
metadata: {name: mesh}
spec:
  selector: {app: web}
  injectBefore: true
  initContainers: [{name: native, image: "pause:e2e", restartPolicy: Always}]
  containers: [{name: plain, image: "pause:e2e"}]
`)
	waitReady(t, ns, "sidecar/mesh")
	eventually(t, "the policies have read the Sidecar", func() (string, error) {
		return "", createPod(ns, `{name: setup, image: "netprobe:e2e", args: [links]}`)
	})
	waitReady(t, ns, "pod/web")
	before := containers(t, ns, "web")

	run(t, ns, "patch", "sidecar", "mesh", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/initContainers/0/image","value":"registry.k8s.io/pause:3.10"},{"op":"replace","path":"/spec/containers/0/image","value":"registry.k8s.io/pause:3.10"}]`)
	eventually(t, "the containers of the Sidecar have the new image", func() (string, error) {
		is := containers(t, ns, "web")
		for _, name := range []string{"native", "plain"} {
			if c := is[name]; c.id == before[name].id || c.id == "" || !c.ready {
				return fmt.Sprintf("%s is %+v", name, c), nil
			}
		}
		return "", nil
	})
	waitReady(t, ns, "pod/web")
	after := containers(t, ns, "web")
	for _, name := range []string{"app", "setup"} {
		if after[name] != before[name] {
			t.Errorf("container %s was %+v and is %+v", name, before[name], after[name])
		}
	}
	for _, name := range []string{"native", "plain"} {
		if after[name].image != "registry.k8s.io/pause:3.10" || after[name].restarts != 1 {
			t.Errorf("container %s is %+v", name, after[name])
		}
	}
	eventually(t, "the status counts the pod", func() (string, error) {
		got, err := kubectl("", "--namespace", ns, "get", "sidecar", "mesh", "--output=jsonpath={.status.matched} {.status.upToDate}")
		return strings.TrimPrefix(got, "1 1"), err
	})
}

func createPod(ns, init string) error {
	out, err := kubectl(`
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  initContainers: [`+init+`]
  containers: [{name: app, image: "netprobe:e2e", args: [serve]}]
`, "--namespace", ns, "create", "-f", "-")
	if err != nil {
		return fmt.Errorf("create the pod: %w: %s", err, out)
	}
	return nil
}

type container struct {
	id, image string
	ready     bool
	restarts  int32
}

// containers of a pod and its init containers, by name, with the image of the spec.
func containers(t *testing.T, ns, name string) map[string]container {
	t.Helper()
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(run(t, ns, "get", "pod", name, "--output=json")), &pod); err != nil {
		t.Fatal(err)
	}
	all := map[string]container{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		all[s.Name] = container{id: s.ContainerID, ready: s.Ready, restarts: s.RestartCount}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		is := all[c.Name]
		is.image = c.Image
		all[c.Name] = is
	}
	return all
}
