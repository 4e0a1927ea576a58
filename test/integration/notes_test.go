//go:build integration

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"
)

// docs/contributing/old-manifests.md is run as it stands: its manifests are files, its
// commands are typed, and have to print what stands there.
func TestFromTheNotes(t *testing.T) {
	ns := newNamespace(t)
	startController(t, ns)
	dir := t.TempDir()
	t.Cleanup(func() {
		for _, file := range []string{"policy.yaml", "definition.yaml"} { // cluster-scoped objects
			if out, err := kubectl("delete", "--ignore-not-found", "-f", filepath.Join(dir, file)); err != nil {
				t.Errorf("delete the objects of %s: %v\n%s", file, err, out)
			}
		}
		run(t, ns, "delete", "crontabs.stable.example.com", "--all", "--timeout="+patience.String())
	})
	if ran := runPage(t, ns, dir, "docs/contributing/old-manifests.md"); ran < 25 {
		t.Errorf("found only %d commands", ran)
	}
}

// runPage writes the manifests of a page into dir, runs its commands there, and returns the
// number of commands.
func runPage(t *testing.T, namespace, dir, file string) (ran int) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	config := inNamespace(t, namespace)
	for _, block := range regexp.MustCompile("(?ms)^```(yaml|console) ?(\\S*)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		kind, file, text := block[1], block[2], block[3]
		if kind == "yaml" {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, step := range regexp.MustCompile(`(?m)^\$ `).Split(text, -1)[1:] {
			command, want, _ := strings.Cut(step, "\n")
			cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
			out, _ := cmd.CombinedOutput() // a refusal has an exit status, too
			if got := strings.TrimSpace(string(out)); got != strings.TrimSpace(want) {
				t.Errorf("$ %s\ngot\n%s\nwant\n%s", command, got, want)
			}
			ran++
		}
	}
	return ran
}

// inNamespace writes a kubeconfig with this namespace as kubectl's default.
func inNamespace(t *testing.T, namespace string) string {
	t.Helper()
	return kubeconfigWith(t, func(config *api.Config) {
		for _, c := range config.Contexts {
			c.Namespace = namespace
		}
	})
}
