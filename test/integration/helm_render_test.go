//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

const mutatingServed = "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"

// helm runs bin/helm without the user's settings.
func helm(t *testing.T, config string, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin/helm"), args...)
	cmd.Dir = filepath.Join(root, "charts")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrNotExist) {
		t.Fatal("bin/helm is missing: run `make bin/helm`")
	}
	return string(out), err
}

// rendered are the objects of a chart, without the test of `helm test`.
func rendered(t *testing.T, chart string, args ...string) map[string]map[string]any {
	t.Helper()
	args = append([]string{"template", "pod2", chart, "--namespace=pod2-system", "--skip-tests", "--no-hooks", mutatingServed}, args...)
	out, err := helm(t, os.DevNull, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return objectsOf(t, out)
}

// objectsOf a manifest, by kind, namespace and name. A duplicate is an error.
func objectsOf(t *testing.T, manifest string) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 1<<20)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%v\n%s", err, manifest)
		}
		if len(o.Object) == 0 {
			continue
		}
		key := fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
		if _, twice := objects[key]; twice {
			t.Errorf("%s exists twice", key)
		}
		objects[key] = o.Object
	}
}

// objectsIn the manifests of this repository.
func objectsIn(t *testing.T, patterns ...string) map[string]map[string]any {
	t.Helper()
	var all bytes.Buffer
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files match %s: %v", len(files), pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&all, "%s\n---\n", content)
		}
	}
	return objectsOf(t, all.String())
}

// requireSameObjects compares two sets of objects.
func requireSameObjects(t *testing.T, what string, got, want map[string]map[string]any) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[key]; !ok {
			t.Errorf("%s lacks %s", what, key)
		} else if !reflect.DeepEqual(got[key], want[key]) {
			t.Errorf("%s differs in %s: it has\n%s\nwant\n%s", what, key, asYAML(t, got[key]), asYAML(t, want[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			t.Errorf("%s has %s, and the manifests do not", what, key)
		}
	}
}

func asYAML(t *testing.T, value any) string {
	t.Helper()
	text, err := sigsyaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// withTag replaces the tag `latest` of this project's images.
func withTag(t *testing.T, objects map[string]map[string]any, tag string) map[string]map[string]any {
	t.Helper()
	text, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]map[string]any{}
	for _, program := range []string{"controller", "agent", "apiserver"} {
		text = bytes.ReplaceAll(text, []byte(`"pod2-`+program+`:latest"`), []byte(`"pod2-`+program+`:`+tag+`"`))
	}
	if err := json.Unmarshal(text, &changed); err != nil {
		t.Fatal(err)
	}
	return changed
}

// The charts have the objects of crd/ and artifacts/. Only the Namespace differs: it is the
// release's own, and helm creates it.
func TestChartsHaveTheManifests(t *testing.T) {
	t.Parallel()
	version := chartOf(t, "pod2").AppVersion
	want := objectsIn(t, "artifacts/*.yaml")
	delete(want, "Namespace /pod2-system")
	requireSameObjects(t, "chart pod2", rendered(t, "pod2"), withTag(t, want, version))
	t.Run("with all switches", func(t *testing.T) {
		t.Parallel()
		want := objectsIn(t, "artifacts/*.yaml", "artifacts/agent/*.yaml", "artifacts/apiserver/apiserver.yaml")
		delete(want, "Namespace /pod2-system")
		got := rendered(t, "pod2", "--set=agent.enabled=true,apiserver.enabled=true")
		requireSameObjects(t, "chart pod2", got, withTag(t, want, version))
	})
	t.Run("cleanup", func(t *testing.T) {
		t.Parallel()
		want := objectsIn(t, "artifacts/*.yaml", "artifacts/agent/cleanup/*.yaml")
		delete(want, "Namespace /pod2-system")
		requireSameObjects(t, "chart pod2", rendered(t, "pod2", "--set=agent.cleanup=true"), withTag(t, want, version))
	})
	t.Run("older Kubernetes", func(t *testing.T) {
		t.Parallel()
		out, err := helm(t, os.DevNull, "template", "pod2", "pod2", "--namespace=pod2-system", "--skip-tests", "--kube-version=1.33.0")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want := objectsIn(t, "artifacts/[0-2]*.yaml", "artifacts/31*.yaml", "artifacts/32*.yaml", "artifacts/40*.yaml")
		delete(want, "Namespace /pod2-system")
		requireSameObjects(t, "chart pod2", objectsOf(t, out), withTag(t, want, version))
	})
	t.Run("definitions", func(t *testing.T) {
		t.Parallel()
		got := rendered(t, "pod2-crds")
		for _, key := range []string{"ValidatingAdmissionPolicy /pod2-definitions.samplecrd.k8s.io", "ValidatingAdmissionPolicyBinding /pod2-definitions.samplecrd.k8s.io"} {
			if got[key] == nil {
				t.Errorf("the chart lacks %s", key)
			}
			delete(got, key) // only charts have versions
		}
		for key, object := range got {
			annotations := object["metadata"].(map[string]any)["annotations"].(map[string]any)
			if annotations["helm.sh/resource-policy"] != "keep" {
				t.Errorf("%s is deleted with the release", key)
			}
			if annotations["samplecrd.k8s.io/chart-version"] != chartOf(t, "pod2-crds").Version {
				t.Errorf("%s does not name the version of its chart: %v", key, annotations)
			}
			delete(annotations, "helm.sh/resource-policy")
			delete(annotations, "samplecrd.k8s.io/chart-version")
		}
		requireSameObjects(t, "chart pod2-crds", got, objectsIn(t, "crd/*.yaml"))
	})
}

type chartFile struct{ Version, AppVersion string }

func chartOf(t *testing.T, name string) chartFile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "charts", name, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c chartFile
	if err := sigsyaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Both charts have the version of the release.
func TestChartVersions(t *testing.T) {
	t.Parallel()
	want := chartOf(t, "pod2").AppVersion
	if file, err := os.ReadFile(filepath.Join(root, "VERSION")); err == nil {
		want = strings.TrimSpace(string(file))
	} else if !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, name := range []string{"pod2", "pod2-crds"} {
		if c := chartOf(t, name); c.AppVersion != want || "v"+c.Version != want {
			t.Errorf("chart %s has version %s and appVersion %s, want %s", name, c.Version, c.AppVersion, want)
		}
	}
}

func TestChartsPassLint(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"pod2"}, {"pod2-crds"}, {"pod2", "--set=agent.enabled=true,apiserver.enabled=true,metrics.serviceMonitor.enabled=true"}} {
		if out, err := helm(t, os.DevNull, append([]string{"lint", "--strict"}, args...)...); err != nil || strings.Contains(out, "[WARNING]") {
			t.Errorf("helm lint %v: %v\n%s", args, err, out)
		}
	}
}

// The schema refuses a typing error, and the template a contradiction.
func TestChartRefusesValues(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"agent.enable=true":                     "additional properties 'enable' not allowed",
		"agent.mtu=big":                         "agent/mtu",
		"controller.args={leader-elect}":        "controller/args/0",
		"agent.enabled=true,agent.cleanup=true": "agent.enabled and agent.cleanup exclude each other",
		// Without --namespace, the release is in the namespace default.
		"agent.enabled=true,agent.namespace=default": "agent.namespace must not be the namespace of the release",
		"metrics.serviceMonitor.interval=often":      "metrics/serviceMonitor/interval",
	} {
		if out, err := helm(t, os.DevNull, "template", "pod2", "pod2", "--set="+set); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %q in\n%s", set, err, want, out)
		}
	}
}

// Each value changes an object, and has a description.
func TestChartUsesEachValue(t *testing.T) {
	t.Parallel()
	everything := []string{"--set=agent.enabled=true,apiserver.enabled=true,metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true"}
	before := rendered(t, "pod2", everything...)
	for _, v := range []struct{ set, where, want string }{
		{"image.registry=example.com/x", "DaemonSet pod2-agent/pod2-agent", "image: example.com/x/pod2-agent:"},
		{"image.tag=v9", "Deployment pod2-system/pod2-controller", "image: pod2-controller:v9"},
		{"image.pullPolicy=Always", "Deployment pod2-system/pod2-apiserver", "imagePullPolicy: Always"},
		{"image.pullSecrets[0].name=regcred", "DaemonSet pod2-agent/pod2-agent", "imagePullSecrets:\n      - name: regcred"},
		{"image.pause=example.com/pause:1,agent.enabled=false,agent.cleanup=true", "DaemonSet pod2-agent-cleanup/pod2-agent-cleanup", "image: example.com/pause:1"},
		{"controller.image=example.com/c:1", "Deployment pod2-system/pod2-controller", "image: example.com/c:1"},
		{"controller.replicas=3", "Deployment pod2-system/pod2-controller", "replicas: 3"},
		{"controller.args={--workers=4}", "Deployment pod2-system/pod2-controller", "- --workers=4"},
		{"controller.goMemLimit=2GiB", "Deployment pod2-system/pod2-controller", "value: 2GiB"},
		{"controller.resources.limits.memory=3Gi", "Deployment pod2-system/pod2-controller", "memory: 3Gi"},
		{"controller.nodeSelector.disk=ssd", "Deployment pod2-system/pod2-controller", "disk: ssd"},
		{"controller.tolerations[0].key=infra", "Deployment pod2-system/pod2-controller", "- key: infra"},
		{"controller.priorityClassName=high", "Deployment pod2-system/pod2-controller", "priorityClassName: high"},
		{"agent.namespace=net", "RoleBinding default/pod2-agent", "namespace: net"},
		{"agent.namespace=net", "DaemonSet net/pod2-agent", "namespace: net"},
		{"agent.namespace=net", "Namespace /net", "enforce: privileged"},
		{"agent.image=example.com/a:1", "DaemonSet pod2-agent/pod2-agent", "image: example.com/a:1"},
		{"agent.mtu=9000", "DaemonSet pod2-agent/pod2-agent", "- --underlay-mtu=9000"},
		{"agent.vxlanPort=8472", "DaemonSet pod2-agent/pod2-agent", "- --vxlan-port=8472"},
		{"agent.cniBinDir=/usr/libexec/cni", "DaemonSet pod2-agent/pod2-agent", "path: /usr/libexec/cni"},
		{"agent.args={--v=1}", "DaemonSet pod2-agent/pod2-agent", "- --v=1"},
		{"agent.resources.limits.memory=3Gi", "DaemonSet pod2-agent/pod2-agent", "memory: 3Gi"},
		{"agent.nodeSelector.disk=ssd", "DaemonSet pod2-agent/pod2-agent", "disk: ssd"},
		{"agent.tolerations[0].key=infra", "DaemonSet pod2-agent/pod2-agent", "- key: infra"},
		{"agent.priorityClassName=high", "DaemonSet pod2-agent/pod2-agent", "priorityClassName: high"},
		{"apiserver.image=example.com/s:1", "Deployment pod2-system/pod2-apiserver", "image: example.com/s:1"},
		{"apiserver.replicas=3", "Deployment pod2-system/pod2-apiserver", "replicas: 3"},
		{"apiserver.args={--v=1}", "Deployment pod2-system/pod2-apiserver", "- --v=1"},
		{"apiserver.goMemLimit=2GiB", "Deployment pod2-system/pod2-apiserver", "value: 2GiB"},
		{"apiserver.resources.limits.memory=3Gi", "Deployment pod2-system/pod2-apiserver", "memory: 3Gi"},
		{"apiserver.nodeSelector.disk=ssd", "Deployment pod2-system/pod2-apiserver", "disk: ssd"},
		{"apiserver.tolerations[0].key=infra", "Deployment pod2-system/pod2-apiserver", "- key: infra"},
		{"apiserver.priorityClassName=high", "Deployment pod2-system/pod2-apiserver", "priorityClassName: high"},
		{"policies.mutating=false", "MutatingAdmissionPolicy /pod2-sidecars.samplecrd.k8s.io", ""},
		{"policies.validating=false", "ValidatingAdmissionPolicy /pod2-pods.samplecrd.k8s.io", ""},
		{"policies.warnings=false", "ValidatingAdmissionPolicy /pod2-keys.samplecrd.k8s.io", ""},
		{"userRoles=false", "ClusterRole /pod2-edit", ""},
		{"agent.enabled=false", "DaemonSet pod2-agent/pod2-agent", ""},
		{"apiserver.enabled=false", "APIService /v1alpha1.view.samplecrd.k8s.io", ""},
		{"metrics.serviceMonitor.enabled=false", "ServiceMonitor pod2-agent/pod2-agent", ""},
		{"metrics.serviceMonitor.labels.release=prom", "ServiceMonitor pod2-system/pod2-controller", "release: prom"},
		{"metrics.serviceMonitor.interval=10s", "ServiceMonitor pod2-agent/pod2-agent", "interval: 10s"},
		{"metrics.prometheusRule.enabled=false", "PrometheusRule pod2-system/pod2", ""},
		{"metrics.prometheusRule.labels.release=prom", "PrometheusRule pod2-system/pod2", "release: prom"},
		{"metrics.dashboard.enabled=false", "ConfigMap pod2-system/pod2-dashboard", ""},
		{"metrics.dashboard.labels.grafana=yes", "ConfigMap pod2-system/pod2-dashboard", "grafana: \"yes\""},
	} {
		t.Run(v.set, func(t *testing.T) {
			t.Parallel()
			object, exists := rendered(t, "pod2", append(everything, "--set="+v.set)...)[v.where]
			if v.want == "" {
				if _, was := before[v.where]; exists || !was {
					t.Errorf("%s is still rendered, or never was", v.where)
				}
				return
			}
			if text := asYAML(t, object); !strings.Contains(text, v.want) || strings.Contains(asYAML(t, before[v.where]), v.want) {
				t.Errorf("%s lacks %q, or always has it:\n%s", v.where, v.want, text)
			}
		})
	}
}

// In another namespace, nothing refers to pod2-system.
func TestChartInAnotherNamespace(t *testing.T) {
	t.Parallel()
	all := asYAML(t, rendered(t, "pod2", "--set=agent.enabled=true,apiserver.enabled=true", "--namespace=elsewhere"))
	if strings.Contains(all, "pod2-system") {
		t.Errorf("some object refers to pod2-system:\n%s", all)
	}
	for _, want := range []string{"--leader-elect-resource-namespace=elsewhere", "--namespace=elsewhere"} {
		if !strings.Contains(all, want) {
			t.Errorf("the flag %s is missing:\n%s", want, all)
		}
	}
}

// kubectl builds the overlays: the objects of the manifests, and no other.
func TestKustomize(t *testing.T) {
	t.Parallel()
	for overlay, want := range map[string]map[string]map[string]any{
		"addresses":  objectsIn(t, "crd/*.yaml", "artifacts/*.yaml"),
		"data-plane": objectsIn(t, "crd/*.yaml", "artifacts/*.yaml", "artifacts/agent/*.yaml"),
	} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin/kubectl"), "kustomize", filepath.Join(root, "kustomize/overlays", overlay)).Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", overlay, err, out)
		}
		requireSameObjects(t, "overlay "+overlay, oneBlank(t, objectsOf(t, string(out))), oneBlank(t, want))
	}
}

// oneBlank replaces line ends and blanks in texts by one blank. Kustomize writes folded
// texts with more of them, which CEL ignores.
func oneBlank(t *testing.T, objects map[string]map[string]any) map[string]map[string]any {
	t.Helper()
	text, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]map[string]any{}
	if err := json.Unmarshal(regexp.MustCompile(`(\\n| )+`).ReplaceAll(text, []byte(" ")), &changed); err != nil {
		t.Fatal(err)
	}
	return changed
}
