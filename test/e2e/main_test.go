//go:build e2e

// Package e2e tests pods on nodes: containers whose interfaces carry the addresses that their
// Networks gave them. `make e2e` starts a cluster of three real kubelets (test/e2e/e2e.sh). It
// runs these tests in the network namespace of the API server, with kubectl on the PATH and
// KUBECONFIG set.
//
// Tests that only use pods of their own are parallel. They run after the others, which stop agents
// and controllers, drain nodes or capture the packets of all pods.
//
// The tests need root. They remove everything that they start, and change nothing else on
// the machine.
package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// root is the checkout.
const root = "../.."

func TestMain(m *testing.M) {
	code := 1
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	} else {
		code = m.Run()
	}
	os.Exit(code)
}

// released returns the path of a file of the release that `make local-release` makes.
func released(file string) string { return filepath.Join(root, "bin/dist", file) }

// install follows docs/how-to/install.md: it applies one file of the release, which names the images by
// digest. The nodes already have the images. For test/e2e/move.sh, it installs the old version.
func install() error {
	if os.Getenv("E2E_DIR") == "" {
		return fmt.Errorf("there is no cluster: run these tests with `make e2e` or `test/e2e/e2e.sh test`")
	}
	manifests, steps := "", [][]string{{"apply", "-f", released("install-dataplane.yaml")}}
	if old := os.Getenv("E2E_OLD"); old != "" {
		var err error
		if manifests, err = manifestsOf(old); err != nil {
			return err
		}
		steps = [][]string{
			{"apply", "-f", filepath.Join(old, "crd")},
			{"wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"},
			{"apply", "-f", "-"},
		}
	}
	steps = append(steps, [][]string{
		{"rollout", "status", "--namespace=pod2-system", "deployment/pod2-controller", "--timeout=120s"},
		{"rollout", "status", "--namespace=pod2-agent", "daemonset/pod2-agent", "--timeout=120s"},
	}...)
	for _, step := range steps {
		out, err := kubectl(manifests, step...)
		for end := time.Now().Add(patience); err != nil && step[0] == "wait" && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			out, err = kubectl("", step...) // it fails if a CRD has no conditions yet
		}
		if err != nil {
			why, _ := kubectl("", "get", "pods,events", "--all-namespaces", "--output=wide")
			return fmt.Errorf("kubectl %s: %w\n%s\n%s", strings.Join(step, " "), err, out, why)
		}
	}
	return nil
}

// manifestsOf an old checkout in artifacts/ and artifacts/agent, with its images.
func manifestsOf(checkout string) (string, error) {
	var all strings.Builder
	for _, directory := range []string{"artifacts", "artifacts/agent"} {
		files, err := filepath.Glob(filepath.Join(checkout, directory, "*.yaml"))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&all, "%s\n---\n", text)
		}
	}
	return strings.NewReplacer("controller:latest", "controller:old", "agent:latest", "agent:old").Replace(all.String()), nil
}
