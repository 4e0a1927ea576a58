//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sidecar is a Sidecar for the pods with the label app: web.
func sidecar(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: samplecrd.k8s.io/v1\nkind: Sidecar\nmetadata: {name: %s}\nspec: {selector: {app: web}, %s}\n", name, spec)
}

// webPod is a pod that those Sidecars select.
func webPod(spec string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: web}}\nspec: {%s}\n", spec)
}

// withoutSidecars gives such a pod the label that leaves out all Sidecars.
func withoutSidecars(pod string) string {
	return strings.Replace(pod, "app: web", "app: web, samplecrd.k8s.io/sidecars: disabled", 1)
}

// withSidecars returns a namespace whose pods get Sidecars, and its controller.
func withSidecars(t *testing.T) string {
	t.Helper()
	needsMutation(t)
	install(t)
	ns := newNamespace(t)
	run(t, "", "label", "namespace", ns, "samplecrd.k8s.io/sidecars=enabled")
	startController(t, ns)
	return ns
}

// waitInjected creates Sidecars, and waits until new pods get them: "a=1/0/0/1".
func waitInjected(t *testing.T, ns, manifests, want string) {
	t.Helper()
	create(t, ns, manifests)
	waitRecord(t, ns, want)
}

func waitRecord(t *testing.T, ns, want string) {
	t.Helper()
	eventually(t, "new pods have the Sidecars "+want, func(ctx context.Context) (string, error) {
		pod, err := dryRun(ctx, ns, webPod("containers: [{name: c, image: x}]"))
		if err == nil && pod.Annotations["samplecrd.k8s.io/sidecars"] != want {
			return "annotations " + fmt.Sprint(pod.Annotations), nil
		}
		return "", err
	})
}

// dryRun returns the pod that would be created.
func dryRun(ctx context.Context, ns, manifest string) (*corev1.Pod, error) {
	out, err := kubectlWith(ctx, manifest, "create", "-n", ns, "--dry-run=server", "-f", "-", "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	pod := &corev1.Pod{}
	_, object, _ := strings.Cut(out, "{") // after the warnings
	return pod, json.Unmarshal([]byte("{"+object), pod)
}

// parts renders the containers and volumes of a pod, without the account's token.
func parts(pod *corev1.Pod) string {
	var b strings.Builder
	for kind, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			fmt.Fprintf(&b, "%s %s%v", []string{"init", "container"}[kind], c.Name, c.Args)
			for _, e := range c.Env {
				fmt.Fprintf(&b, " %s=%s", e.Name, e.Value)
			}
			for _, m := range c.VolumeMounts {
				if !strings.HasPrefix(m.Name, "kube-api-access-") {
					fmt.Fprintf(&b, " %s", m.MountPath)
				}
			}
			b.WriteString("\n")
		}
	}
	for _, v := range pod.Spec.Volumes {
		if !strings.HasPrefix(v.Name, "kube-api-access-") {
			fmt.Fprintf(&b, "volume %s\n", v.Name)
		}
	}
	return b.String()
}

const (
	meshSidecar = `injectBefore: true,
  initContainers: [{name: mesh-init, image: m, args: [redirect]}, {name: mesh, image: m, args: [run], restartPolicy: Always}],
  volumes: [{name: mesh, emptyDir: {}}], volumeMounts: [{name: mesh, mountPath: /mesh}], env: [{name: PROXY, value: mesh}]`
	logsSidecar = `containers: [{name: logs, image: l, args: [tail]}], initContainers: [{name: logs-init, image: l}],
  env: [{name: LOGS, value: logs}], targetContainers: [c]`
)

// A pod gets containers with args, volumes, mounts and variables, whether or not it has such
// lists. Containers of several Sidecars are in the order of their names.
func TestSidecarsAreAdded(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	waitInjected(t, ns, sidecar("mesh", meshSidecar)+sidecar("logs", logsSidecar)+sidecar("zip", `containers: [{name: zip, image: z}]`),
		"logs=1/0/1/1,mesh=1/2/0/0,zip=1/0/0/1")
	for _, c := range []struct{ name, spec, want string }{
		{"a pod without lists", `automountServiceAccountToken: false, containers: [{name: c, image: x}]`, `init mesh-init[redirect]
init mesh[run]
init logs-init[]
container c[] LOGS=logs PROXY=mesh /mesh
container logs[tail]
container zip[]
volume mesh
`},
		{"a pod with lists", `initContainers: [{name: i, image: x, args: [a]}], volumes: [{name: v, emptyDir: {}}],
  containers: [{name: c, image: x, args: [b], env: [{name: PROXY, value: mine}], volumeMounts: [{name: v, mountPath: /v}]}, {name: d, image: x}]`, `init mesh-init[redirect]
init mesh[run]
init i[a]
init logs-init[]
container c[b] PROXY=mine LOGS=logs /v /mesh
container d[] PROXY=mesh /mesh
container logs[tail]
container zip[]
volume v
volume mesh
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The order of evaluation differs from pod to pod.
			for range 5 {
				pod, err := dryRun(t.Context(), ns, webPod(c.spec))
				if err != nil {
					t.Fatal(err)
				}
				if got := parts(pod); withVariablesSorted(got) != withVariablesSorted(c.want) {
					t.Fatalf("the pod has\n%swant\n%s", got, c.want)
				}
			}
		})
	}
	for _, c := range []struct{ name, manifest string }{
		{"other labels", strings.Replace(webPod(`containers: [{name: c, image: x}]`), "app: web", "app: db", 1)},
		{"a pod that leaves out all Sidecars", withoutSidecars(webPod(`containers: [{name: c, image: x}]`))},
		{"a mirror pod", strings.Replace(webPod(`nodeName: node-x, containers: [{name: c, image: x}]`), "labels:", `annotations: {kubernetes.io/config.mirror: x}, labels:`, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod, err := dryRun(t.Context(), ns, c.manifest)
			if err != nil {
				t.Fatal(err)
			}
			if len(pod.Spec.Containers) > 1 {
				t.Errorf("the pod has\n%s", parts(pod))
			}
		})
	}
}

// withVariablesSorted ignores the order of the variables of different Sidecars.
func withVariablesSorted(text string) string {
	return strings.NewReplacer("LOGS=logs PROXY=mesh", "PROXY=mesh LOGS=logs").Replace(text)
}

// A pod gets a Sidecar once, although the policy is evaluated again after a change by another
// policy, and although the pod comes from a copy.
func TestSidecarsAreAddedOnce(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	mirrors(t, ns)
	waitInjected(t, ns, sidecar("logs", logsSidecar), "logs=1/0/1/1")
	create(t, ns, webPod(`containers: [{name: c, image: x}]`))
	const want = "init logs-init[]\ncontainer c[] LOGS=logs\ncontainer logs[tail]\n"
	pod, err := kube.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := parts(pod); got != want {
		t.Errorf("the pod has\n%swant\n%s", got, want)
	}
	restored := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "copy", Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
	restored.Spec.NodeName = ""
	if pod, err = kube.CoreV1().Pods(ns).Create(t.Context(), restored, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := parts(pod); got != want {
		t.Errorf("the copy has\n%swant\n%s", got, want)
	}
}

// An annotation that a user wrote never makes the API server refuse a pod. One that names a
// Sidecar leaves it out.
func TestAnnotationOfSidecars(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	waitInjected(t, ns, sidecar("logs", logsSidecar)+sidecar("mesh", meshSidecar), "logs=1/0/1/1,mesh=1/2/0/0")
	for _, c := range []struct{ is, want string }{
		{"", "logs=1/0/1/1,mesh=1/2/0/0"},
		{"text", "logs=1/0/1/1,mesh=1/2/0/0"},
		{"logs=off", "logs=off,mesh=1/2/0/0"},
		{"logs=Off", "logs=Off,mesh=1/2/0/0"},
		{"mesh=", "logs=1/0/1/1,mesh="},
		{"logs=off, mesh=off", "logs=off, mesh=off"},
		{"a=1/99/99/99", "a=1/99/99/99,logs=1/0/1/1,mesh=1/2/0/0"},
		{"z=1/99/99/99", "logs=1/0/1/1,mesh=1/2/0/0,z=1/99/99/99"},
		{"z=99999999999999999999/1/1/1", "logs=1/0/1/1,mesh=1/2/0/0,z=99999999999999999999/1/1/1"},
	} {
		pod, err := dryRun(t.Context(), ns, strings.Replace(webPod(`containers: [{name: c, image: x}]`), "labels:", fmt.Sprintf("annotations: {samplecrd.k8s.io/sidecars: %q}, labels:", c.is), 1))
		if err != nil {
			t.Errorf("%q: %v", c.is, err)
		} else if got := pod.Annotations["samplecrd.k8s.io/sidecars"]; got != c.want {
			t.Errorf("%q becomes %q, want %q", c.is, got, c.want)
		}
	}
}

// A Sidecar and a Deployment in one file: its pods join the Network of the Sidecar, and wait
// for the address.
func TestSidecarWithANetwork(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("green", `{cidr: 10.1.0.0/24}`)+
		sidecar("mesh", `networks: [{name: blue}]`)+workload("Deployment", "web", "replicas: 2"))
	run(t, ns, "rollout", "status", "deployment/web", "--timeout="+patience.String())
	for name, got := range addresses(t, ns) {
		if !strings.HasPrefix(got, "blue=10.0.0.") {
			t.Errorf("pod %s has the addresses %q", name, got)
		}
	}
	for is, want := range map[string]string{"green": "green, blue", "green=10.1.0.7": "green=10.1.0.7, blue", " blue@eth0 = 10.0.0.9,green": " blue@eth0 = 10.0.0.9,green"} {
		pod, err := dryRun(t.Context(), ns, strings.Replace(webPod(`containers: [{name: c, image: x}]`), "labels:", fmt.Sprintf("annotations: {samplecrd.k8s.io/networks: %q}, labels:", is), 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := pod.Annotations["samplecrd.k8s.io/networks"]; got != want {
			t.Errorf("the request %q becomes %q, want %q", is, got, want)
		}
	}
}

// Pod Security bounds the containers and volumes of Sidecars as those of any pod. A refused
// generation breaks no pod: new pods get the one before it.
func TestSidecarUnderRestricted(t *testing.T) {
	t.Parallel()
	ns := withSidecars(t)
	const safe = `securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}`
	waitInjected(t, ns, sidecar("mesh", `containers: [{name: mesh, image: m, `+safe+`}]`), "mesh=1/0/0/1")
	run(t, "", "label", "namespace", ns, "pod-security.kubernetes.io/enforce=restricted")
	pod := webPod(`containers: [{name: c, image: x, ` + safe + `}]`)
	eventually(t, "Pod Security is in force", func(ctx context.Context) (string, error) {
		if _, err := dryRun(ctx, ns, webPod(`containers: [{name: c, image: x}]`)); err == nil {
			return "a pod of root is admitted", nil
		}
		return "", nil
	})
	if _, err := dryRun(t.Context(), ns, pod); err != nil {
		t.Error(err)
	}
	for i, c := range []struct{ spec, want string }{
		{`{"containers":[{"name":"mesh","image":"m","securityContext":{"privileged":true}}]}`, `container "mesh" must not set securityContext.privileged=true`},
		{`{"containers":[{"name":"mesh","image":"m","securityContext":{"allowPrivilegeEscalation":false,"runAsNonRoot":true,"capabilities":{"drop":["ALL"]}}}]}`, `container "mesh" must set securityContext.seccompProfile.type`},
		{`{"containers":null,"volumes":[{"name":"host","hostPath":{"path":"/"}}]}`, `volume "host" uses restricted volume type "hostPath"`},
	} {
		run(t, ns, "patch", "sidecar", "mesh", "--type=merge", "-p", `{"spec":`+c.spec+`}`)
		waitCondition(t, ns, "sidecar/mesh", "Ready", c.want)
		if pod, err := dryRun(t.Context(), ns, pod); err != nil || pod.Annotations["samplecrd.k8s.io/sidecars"] != "mesh=1/0/0/1" {
			t.Errorf("after patch %d, a pod has the annotations %v: %v", i, pod.Annotations, err)
		}
	}
}

// The API server refuses a container that no pod can have. In a policy, it would turn each
// creation of a pod into an error 500.
func TestMalformedSidecarIsRefused(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	for spec, want := range map[string]string{
		`containers: [{name: c, image: 5}]`:                                             "spec.containers[0].image: Invalid value",
		`containers: [{name: c, ports: [{containerPort: http}]}]`:                       "spec.containers[0].ports[0].containerPort: Invalid value",
		`initContainers: [{image: x}]`:                                                  "spec.initContainers[0].name: Required value",
		`volumes: [{name: v, emptyDir: 1}]`:                                             "spec.volumes[0].emptyDir: Invalid value",
		`env: [{name: A, value: [a]}]`:                                                  "spec.env[0].value: Invalid value",
		`containers: [{name: c, resources: {limits: {cpu: fast}}}]`:                     "spec.containers[0].resources.limits.cpu: Invalid value",
		`containers: [{name: c, image: a}, {name: c, image: b}]`:                        "Duplicate value",
		`selector: {}, networks: [{name: Blue}]`:                                        "spec.networks[0].name: Invalid value",
		`volumeMounts: [{name: v, mountPath: /a, readOnly: "yes"}]`:                     "spec.volumeMounts[0].readOnly: Invalid value",
		`containers: [{name: c, livenessProbe: {httpGet: {path: /, port: {a: "80"}}}}]`: "spec.containers[0].livenessProbe.httpGet.port: Invalid value",
	} {
		if got := refused(t, ns, strings.Replace(sidecar("s", spec), "selector: {app: web}, selector: {}", "selector: {}", 1), "create", "--validate=false", "-f", "-"); !strings.Contains(got, want) {
			t.Errorf("%s is refused with\n%s\nwant %q in it", spec, got, want)
		}
	}
}

// Without the CRD, or before the API server has read the Sidecars, no pod starts without its
// Sidecars in a namespace that has them. All other namespaces, such as kube-system, do not
// depend on either. This test removes the policy and the CRD for a moment, so it runs alone.
func TestPodsWhileSidecarsAreUnknown(t *testing.T) {
	ns, other := withSidecars(t), newNamespace(t)
	policy, definition := filepath.Join(root, "artifacts/33-sidecars.yaml"), filepath.Join(root, "crd/samplecrd.k8s.io_sidecars.yaml")
	t.Cleanup(func() {
		for _, file := range []string{definition, policy} {
			if out, err := kubectl("apply", "-f", file); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
		if err := applyCRDs(); err != nil {
			t.Error(err)
		}
	})
	waitInjected(t, ns, sidecar("logs", logsSidecar), "logs=1/0/1/1")
	pod := webPod(`containers: [{name: c, image: x}]`)

	removePolicy := func() {
		t.Helper()
		run(t, "", "delete", "-f", policy)
		eventually(t, "the policy is gone", func(ctx context.Context) (string, error) {
			pod, err := dryRun(ctx, ns, pod)
			if err == nil && len(pod.Spec.Containers) > 1 {
				return "it is in force", nil
			}
			return "", err
		})
	}
	removePolicy()
	run(t, "", "apply", "-f", policy)
	acted := false
	eventually(t, "new pods have the Sidecar", func(ctx context.Context) (string, error) {
		pod, err := dryRun(ctx, ns, pod)
		if err == nil && len(pod.Spec.Containers) == 1 && acted {
			t.Fatal("a pod started without the Sidecar after the policy was in force")
		}
		acted = acted || err != nil || len(pod.Spec.Containers) > 1
		if err == nil && len(pod.Spec.Containers) == 1 {
			return "the policy is not in force", nil
		}
		return "", err
	})

	// With the CRD, all Sidecars are deleted. An API server that starts without the CRD, like
	// one that gets the policy first, does not know the kind, or never reads its objects.
	removePolicy()
	run(t, "", "delete", "-f", definition, "--timeout="+patience.String())
	run(t, "", "apply", "-f", policy)
	eventually(t, "pods are refused without the CRD", func(ctx context.Context) (string, error) {
		if _, err := dryRun(ctx, ns, pod); err == nil || !strings.Contains(err.Error(), "paramKind") {
			return fmt.Sprint(err), nil
		}
		return "", nil
	})
	if _, err := dryRun(t.Context(), ns, withoutSidecars(pod)); err != nil {
		t.Errorf("a pod with the label that leaves out all Sidecars: %v", err)
	}
	for _, ns := range []string{"kube-system", "default", other} {
		if _, err := dryRun(t.Context(), ns, pod); err != nil {
			t.Errorf("a pod of %s: %v", ns, err)
		}
	}
	run(t, "", "apply", "-f", definition)
	eventually(t, "pods start again", func(ctx context.Context) (string, error) {
		_, err := dryRun(ctx, ns, pod)
		return "", err
	})
}
