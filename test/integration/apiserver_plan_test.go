//go:build integration

package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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
		shown := string(out) // the exit status says that something would change
		for action := range strings.Lines(actions) {
			if action = strings.TrimSpace(action); !strings.HasPrefix(action, "status ") && !strings.Contains(shown, action) {
				t.Errorf("Pod2Plan has %q, which kubectl pod2 plan does not show:\n%s", action, shown)
			}
		}
		_, shown, _ = strings.Cut(shown, "The first step of the controller would be:\n")
		for step := range strings.Lines(shown) {
			// Conditions have lines of their own, which begin with more spaces. Text about addresses follows the steps.
			if !strings.HasPrefix(step, "  ") {
				break
			}
			if words := strings.TrimSpace(step); !strings.HasPrefix(step, "   ") && !strings.HasPrefix(words, "status ") && !strings.Contains(actions, words) {
				t.Errorf("kubectl pod2 plan shows %q, which Pod2Plan does not have:\n%s", words, actions)
			}
		}
	}
	const image = "registry.k8s.io/pause:3.10"
	same(manifest("2", image), "create web-1 on blue")
	create(t, ns, manifest("2", image))
	waitReady(t, ns, "pod2/web")
	eventually(t, "the plan of the same Pod2 is empty", func(context.Context) (string, error) { return plan(manifest("2", image)), nil })
	same(manifest("3", image), "create web-2 on blue")
	same(manifest("1", image), "delete web-1 ")
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
