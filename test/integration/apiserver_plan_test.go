//go:build integration

package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A Pod2Plan has the same actions as `kubectl pod2 plan`.
func TestPod2Plan(t *testing.T) {
	aggregation(t)
	port, _ := startAPIServer(t)
	aggregate(t, port)
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.1.0.0/24}`))
	manifest := func(replicas, image string) string {
		return `{"apiVersion": "samplecrd.k8s.io/v1", "kind": "Pod2", "metadata": {"name": "web"}, "spec": {"replicas": ` + replicas +
			`, "networks": [{"name": "blue"}], "template": {"spec": {"containers": [{"name": "c", "image": "` + image + `"}]}}}}`
	}
	plan := func(pod2 string) string {
		t.Helper()
		out, err := kubectlWith(t.Context(), `{"apiVersion": "view.samplecrd.k8s.io/v1alpha1", "kind": "Pod2Plan", "spec": {"pod2": `+pod2+`}}`,
			"create", "-n", ns, "-f", "-", "-o", `jsonpath={range .status.actions[*]}{@}{"\n"}{end}`)
		if err != nil {
			t.Fatalf("create a Pod2Plan: %v\n%s", err, out)
		}
		return out
	}
	same := func(pod2, want string) {
		t.Helper()
		actions := plan(pod2)
		if !strings.Contains(actions, want) {
			t.Errorf("the actions are\n%s\nwant one with %q", actions, want)
		}
		file := filepath.Join(t.TempDir(), "pod2.json")
		if err := os.WriteFile(file, []byte(pod2), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.CommandContext(t.Context(), filepath.Join(root, "bin/kubectl-pod2"), "--kubeconfig", kubeconfig, "-n", ns, "plan", "-f", file).CombinedOutput()
		// The exit status says that something would change. Each condition is on a line of its own.
		_, shown, _ := strings.Cut(regexp.MustCompile(`\n {6}`).ReplaceAllString(string(out), " "), "The first step of the controller would be:\n")
		var steps []string
		for line := range strings.Lines(shown) {
			step, indented := strings.CutPrefix(line, "  ")
			if !indented {
				break // text about addresses
			}
			if !strings.HasPrefix(step, "again in ") {
				steps = append(steps, strings.TrimSpace(step))
			}
		}
		if got := strings.Join(steps, "\n"); got != strings.TrimSpace(actions) {
			t.Errorf("kubectl pod2 plan shows\n%s\nthe Pod2Plan has\n%s", got, actions)
		}
	}
	const image = "registry.k8s.io/pause:3.10"
	same(manifest("2", image), "create web-1 on blue")
	create(t, ns, manifest("2", image))
	waitReady(t, ns, "pod2/web")
	eventually(t, "the plan of the same Pod2 is empty", func(context.Context) (string, error) { return plan(manifest("2", image)), nil })
	same(manifest("3", image), "create web-2 on blue")
	same(manifest("1", image), "delete web-1 ")
	// Volumes, and an address that a StatefulSet has.
	claims := func(size string) string {
		return `{"apiVersion": "samplecrd.k8s.io/v1", "kind": "Pod2", "metadata": {"name": "store"}, "spec": {"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "data"},
			"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "` + size + `"}}}}], "template": {"spec": {"containers": [{"name": "c", "image": "` + image + `"}]}}}}`
	}
	same(claims("1Gi"), "create store-0")
	create(t, ns, claims("1Gi"))
	waitReady(t, ns, "pod2/store")
	same(claims("2Gi"), "data-store-0")
	create(t, ns, gated(restoredSet))
	run(t, ns, "wait", "--for=create", "--timeout="+patience.String(), "pod/db-0", "pod/db-1")
	waitReady(t, ns, "pod/db-0", "pod/db-1")
	taken := addressOn(listPods(t, ns)["db-0"], "blue")
	same(strings.NewReplacer(`"name": "web"`, `"name": "other"`, `"name": "blue"`, `"name": "blue", "addresses": ["`+taken+`"]`).Replace(manifest("1", image)), "create other-0 on blue="+taken)
	for text, want := range map[string]string{
		strings.Replace(manifest("2", image), `"replicas"`, `"copies"`, 1):        `unknown field "copies"`,
		strings.Replace(manifest("2", image), `"Pod2"`, `"Pod"`, 1):               "spec.pod2.kind",
		strings.Replace(manifest("2", image), `"name": "web"`, `"labels": {}`, 1): "spec.pod2.metadata.name",
	} {
		if got := refused(t, ns, `{"apiVersion": "view.samplecrd.k8s.io/v1alpha1", "kind": "Pod2Plan", "spec": {"pod2": `+text+`}}`, "create", "-f", "-"); !strings.Contains(got, want) {
			t.Errorf("the refusal is %s, want %q", got, want)
		}
	}
}
