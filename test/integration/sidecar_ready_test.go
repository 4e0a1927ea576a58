//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func waitSidecar(t *testing.T, ns, name, path, want string) {
	t.Helper()
	eventually(t, name+" has "+path+" "+want, func(context.Context) (string, error) {
		got, err := kubectl("-n", ns, "get", "sidecar", name, "-o", "jsonpath="+path)
		if got != want {
			return "got " + got, err
		}
		return "", err
	})
}

const sidecarCounts = "{.status.matched} {.status.upToDate} {.status.ready} {.status.injected.generation}"

// The status counts the pods that have the Sidecar. A new generation reaches pods that are
// recreated, and fields that it lacks are gone.
func TestStatusOfASidecar(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+sidecar("mesh", `containers: [{name: mesh, image: m}], env: [{name: A, value: a}]`)+workload("Deployment", "web", "replicas: 2"))
	waitReady(t, ns, "sidecar/mesh")
	run(t, ns, "rollout", "status", "deployment/web", "--timeout="+patience.String())
	waitSidecar(t, ns, "mesh", sidecarCounts, "2 2 2 1")
	run(t, ns, "patch", "sidecar", "mesh", "--type=json", "-p", `[{"op":"remove","path":"/spec/env"}]`)
	waitSidecar(t, ns, "mesh", sidecarCounts, "2 0 2 2")
	if got := run(t, ns, "get", "sidecar", "mesh", "-o", "jsonpath={.status.injected.spec.env}"); got != "" {
		t.Errorf("the injected generation still has the variables %s", got)
	}
	run(t, ns, "rollout", "restart", "deployment/web")
	run(t, ns, "rollout", "status", "deployment/web", "--timeout="+patience.String())
	waitSidecar(t, ns, "mesh", sidecarCounts, "2 2 2 2")
	run(t, ns, "delete", "sidecar", "mesh")
	eventually(t, "new pods have no Sidecar", func(ctx context.Context) (string, error) {
		pod, err := dryRun(ctx, ns, webPod(`containers: [{name: c, image: x}]`))
		if err == nil && len(pod.Spec.Containers) > 1 {
			return parts(pod), nil
		}
		return "", err
	})
}

// A Sidecar that would break each pod is reported in the words of the API server. It breaks
// none: pods are refused or get no Sidecar until it is corrected.
func TestASidecarThatBreaksPods(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	const broken = `containers: [{name: mesh, image: m, volumeMounts: [{name: missing, mountPath: /m}]}]`
	create(t, ns, sidecar("mesh", broken)+strings.Replace(sidecar("logs", broken+", whenNotReady: Skip"), "app: web", "app: db", 1))
	waitCondition(t, ns, "sidecar/mesh", "Ready", `False Refused: Pod "mesh-sidecar-probe" is invalid: spec.containers[1].volumeMounts[0].name: Not found: "missing"`)
	waitCondition(t, ns, "sidecar/logs", "Ready", "False Refused")
	pod := webPod(`containers: [{name: c, image: x}]`)
	eventually(t, "the policy knows the error", func(context.Context) (string, error) {
		if got := refused(t, ns, pod, "create", "-f", "-"); !strings.Contains(got, `Sidecar mesh, which selects this pod, is not Ready yet: Pod "mesh-sidecar-probe" is invalid`) {
			return "the pod is refused with " + got, nil
		}
		return "", nil
	})
	if _, err := dryRun(t.Context(), ns, withoutSidecars(pod)); err != nil {
		t.Errorf("a pod that leaves out all Sidecars: %v", err)
	}
	if pod, err := dryRun(t.Context(), ns, strings.Replace(pod, "app: web", "app: db", 1)); err != nil || len(pod.Spec.Containers) != 1 {
		t.Errorf("with Skip, the pod is %v, %v", pod, err)
	}
	run(t, ns, "patch", "sidecar", "mesh", "--type=merge", "-p", `{"spec":{"volumes":[{"name":"missing","emptyDir":{}}]}}`)
	waitReady(t, ns, "sidecar/mesh")
	waitRecord(t, ns, "mesh=2/0/0/1")
	create(t, ns, pod)
}

// Pods get 20 Sidecars of a namespace. The next one says why it is not Ready, and until it
// is, the API server refuses further ones.
func TestTooManySidecars(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	var all, names []string
	for i := range 21 {
		all = append(all, sidecar(fmt.Sprintf("s%02d", i), fmt.Sprintf("env: [{name: V%d}]", i)))
		names = append(names, fmt.Sprintf("sidecar/s%02d", i))
	}
	create(t, ns, strings.Join(all[:20], ""))
	waitReady(t, ns, names[:20]...)
	create(t, ns, all[20])
	waitCondition(t, ns, names[20], "Ready", "False TooMany: the namespace has 20 other Sidecars, and pods get at most 20")
	eventually(t, "further Sidecars are refused", func(context.Context) (string, error) {
		out, err := kubectlWith(t.Context(), sidecar("more", "env: [{name: MORE}]"), "create", "-n", ns, "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(out, "Sidecar s20 is one too many for namespace "+ns) {
			return fmt.Sprintf("it prints %q (%v)", out, err), nil
		}
		return "", nil
	})
	run(t, ns, "delete", names[7])
	waitReady(t, ns, names[20])
	eventually(t, "another Sidecar is admitted", func(context.Context) (string, error) {
		out, err := kubectlWith(t.Context(), sidecar("more", "env: [{name: MORE}]"), "create", "-n", ns, "--dry-run=server", "-f", "-")
		if err != nil {
			return fmt.Sprintf("it prints %q (%v)", out, err), nil
		}
		return "", nil
	})
}

// The condition of a Sidecar says that its namespace lacks the label.
func TestANamespaceWithoutTheLabel(t *testing.T) {
	t.Parallel()
	needsMutation(t)
	install(t)
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, sidecar("mesh", `containers: [{name: mesh, image: m}]`))
	waitCondition(t, ns, "sidecar/mesh", "Ready", "label the namespace: kubectl label namespace "+ns+" samplecrd.k8s.io/sidecars=enabled")
	create(t, ns, webPod(`containers: [{name: c, image: x}]`))
	run(t, "", "label", "namespace", ns, "samplecrd.k8s.io/sidecars=enabled")
	waitReady(t, ns, "sidecar/mesh")
}

// Nobody without the right to create pods writes the containers that pods get.
func TestStatusOfASidecarIsProtected(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	validationPolicies(t, ns)
	create(t, ns, sidecar("mesh", `containers: [{name: mesh, image: m}]`))
	waitReady(t, ns, "sidecar/mesh")
	u := newUser(t, ns, "no-pods", "samplecrd.k8s.io", "sidecars sidecars/status", "get update patch")
	sidecars := podsResource
	sidecars.Group, sidecars.Resource = "samplecrd.k8s.io", "sidecars"
	for patch, want := range map[string]string{
		`{"status":{"injected":{"generation":9}}}`: "pod2-creators",
		`{"status":{"matched":9}}`:                 "unchanged",
	} {
		outcome(t, patch, u.patch(t, sidecars, "mesh", patch, "status"), want)
	}
}

// The dry run of a Sidecar needs no pod, and leaves none.
func TestTheDryRunLeavesNoPod(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	create(t, ns, sidecar("mesh", `containers: [{name: mesh, image: m}], networks: [{name: blue}]`))
	waitReady(t, ns, "sidecar/mesh")
	pods, err := kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Error(fmt.Sprint(len(pods.Items), " pods ", err))
	}
}
