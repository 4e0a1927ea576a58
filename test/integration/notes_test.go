//go:build integration

package integration

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"
)

// TestFromTheNotes runs docs/contributing/old-manifests.md unchanged: it writes the manifests
// to files, types the commands, and compares their output.
func TestFromTheNotes(t *testing.T) {
	needsMutation(t)
	install(t)
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
	runUserPage(t, ns, dir, "docs/contributing/old-manifests.md", "")
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
