//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// If a cluster is running, `make cluster-up` does not change it, and prints the next
// command.
func TestClusterIsStartedOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Dir(kubeconfig)
	out, err := script("up", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"is already running. To start it anew, first run `hack/localcluster.sh down " + dir + "`.",
		"\n  export KUBECONFIG=" + kubeconfig + " PATH=" + filepath.Join(root, "bin") + ":$PATH\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output is\n%s\nwant %q in it", out, want)
		}
	}
}

// On a busy machine, kube-controller-manager exits before the API server is healthy. `up`
// starts it again. Here its first start fails.
func TestUpStartsTheControllerManagerAgain(t *testing.T) {
	t.Parallel()
	checkout := t.TempDir()
	bin := filepath.Join(checkout, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	link := func(name string) {
		t.Helper()
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(checkout, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("hack")
	for _, program := range []string{"server", "kube-apiserver", "kube-scheduler", "kwok", "kwokctl", "kubectl"} {
		link(filepath.Join("bin", program))
	}
	// kwokctl also asks it for its version.
	const failsOnce = `#!/bin/bash
if [[ $* == *--kubeconfig=* ]] && mkdir "%[1]s/failed"; then exit 1; fi
exec -a "$0" "%[2]s/bin/kube-controller-manager" "$@"
`
	if err := os.WriteFile(filepath.Join(bin, "kube-controller-manager"), fmt.Appendf(nil, failsOnce, checkout, root), 0o700); err != nil {
		t.Fatal(err)
	}
	clusterOf(t, checkout, "K8S=").kubectl("get", "serviceaccount", "default")
	if _, err := os.Stat(filepath.Join(checkout, "failed")); err != nil {
		t.Errorf("the first start did not fail: %v", err)
	}
}

// A PVC without a StorageClass gets a volume, which grows and is deleted with it.
func TestLocalClusterHasStorage(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	const state = "jsonpath={.status.phase} {.status.capacity.storage} {.spec.storageClassName}"
	waitState := func(want string) {
		t.Helper()
		eventually(t, "the PVC is "+want, func(context.Context) (string, error) {
			if got := run(t, ns, "get", "pvc", "data", "-o", state); got != want {
				return "it is " + got, nil
			}
			return "", nil
		})
	}
	waitState("Bound 1Gi standard")
	run(t, ns, "patch", "pvc", "data", "-p", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	waitState("Bound 2Gi standard")
	volume := run(t, ns, "get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
	if got := run(t, ns, "get", "pv", volume, "-o", "jsonpath={.spec.capacity.storage}"); got != "2Gi" {
		t.Errorf("the volume has %s, want 2Gi", got)
	}
	run(t, ns, "delete", "pvc", "data", "--timeout="+patience.String())
	eventually(t, "the volume is gone", func(context.Context) (string, error) {
		return kubectl("get", "pv", volume, "--ignore-not-found", "-o", "name")
	})
}

// The demo has its own cluster: `make demo-down`, with which `make demo` begins, removes
// only that one. The cluster of `make cluster-up` stays.
func TestDemoLeavesTheOtherClusterAlone(t *testing.T) {
	t.Parallel()
	checkout := t.TempDir()
	if err := os.CopyFS(filepath.Join(checkout, "hack"), os.DirFS(filepath.Join(root, "hack"))); err != nil {
		t.Fatal(err)
	}
	ours, demo := filepath.Join(checkout, ".localcluster"), filepath.Join(checkout, ".localcluster/demo")
	for _, dir := range []string{ours, demo} {
		if err := os.MkdirAll(filepath.Join(dir, "control-plane"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want ...string) {
		t.Helper()
		if out, err := exec.Command(filepath.Join(checkout, "hack/demo.sh"), "down").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got, err := filepath.Glob(filepath.Join(ours, "*"))
		if err != nil || !slices.EqualFunc(got, want, func(path, name string) bool { return filepath.Base(path) == name }) {
			t.Errorf("the remaining directories are %s, want %s (%v)", got, want, err)
		}
	}
	left("control-plane", "kubeconfig")
	if err := os.RemoveAll(ours); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(demo, 0o700); err != nil {
		t.Fatal(err)
	}
	left()
	if _, err := os.Stat(ours); !os.IsNotExist(err) {
		t.Errorf("an empty directory remains: %v", err)
	}
}
