//go:build integration

package integration

import (
	"context"
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
