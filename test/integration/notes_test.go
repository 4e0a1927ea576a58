//go:build integration

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"
)

// TestFromTheNotes runs docs/contributing/old-manifests.md unchanged: it writes the manifests
// to files, types the commands, and compares their output.
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
	config := inNamespace(t, namespace)
	for _, b := range pageBlocks(t, file) {
		if b.language == "sh" { // for readers, not for the test
			continue
		}
		if b.language == "yaml" {
			if err := os.WriteFile(filepath.Join(dir, b.file), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, s := range b.steps() {
			cmd := exec.CommandContext(t.Context(), "bash", "-c", s.command)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
			out, _ := cmd.CombinedOutput() // a refusal is an exit status, too
			if got := strings.TrimSpace(string(out)); got != strings.TrimSpace(s.output) {
				t.Errorf("$ %s\ngot\n%s\nwant\n%s", s.command, got, s.output)
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
