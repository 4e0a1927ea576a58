//go:build e2e

// Package e2e tests what runs on nodes: pods in containers, with interfaces that
// carry the addresses their Networks gave them. `make e2e` starts a cluster of three
// real kubelets (test/e2e/e2e.sh) and runs these tests where its API server is, in a
// network namespace, with kubectl on the PATH and KUBECONFIG set.
//
// It needs root. What it starts, it removes, and it touches nothing of the machine.
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

// install does what README.md tells a cluster's owner to do: apply crd/, artifacts/ and
// artifacts/agent. The images are on the nodes already.
func install() error {
	if os.Getenv("E2E_DIR") == "" {
		return fmt.Errorf("no cluster: run these tests by `make e2e`, or `test/e2e/e2e.sh test`")
	}
	steps := [][]string{
		{"apply", "-f", filepath.Join(root, "crd")},
		{"wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"},
		{"apply", "-f", filepath.Join(root, "artifacts"), "-f", filepath.Join(root, "artifacts", "agent")},
		{"rollout", "status", "--namespace=pod2-system", "deployment/pod2-controller", "--timeout=120s"},
		{"rollout", "status", "--namespace=pod2-agent", "daemonset/pod2-agent", "--timeout=120s"},
	}
	for _, step := range steps {
		out, err := kubectl("", step...)
		for end := time.Now().Add(patience); err != nil && step[0] == "wait" && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			out, err = kubectl("", step...) // it fails on a CRD that has no conditions yet
		}
		if err != nil {
			why, _ := kubectl("", "get", "pods,events", "--all-namespaces", "--output=wide")
			return fmt.Errorf("kubectl %s: %w\n%s\n%s", strings.Join(step, " "), err, out, why)
		}
	}
	return nil
}
