//go:build integration && upgrade

package integration

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// previous is the version to upgrade from: that of the last release. Before the first one, it
// is the last commit before its preparation.
const previous = "5a84a79"

// standingSystem has 200 replicas on two Networks, of which half are updated, a Network
// without a free address, pods that wait for one, a StatefulSet, and a run of a CronTab.
var standingSystem = network("blue", `{cidr: 10.10.0.0/22}`) + network("green", `{cidr: 10.20.0.0/22}`) + network("small", `{cidr: 10.30.0.0/29}`) +
	pod2("web", "replicas: 100, networks: [{name: blue}]") +
	pod2("both", "replicas: 100, networks: [{name: blue}, {name: green}], updateStrategy: {rollingUpdate: {partition: 50}}") +
	pod2("many", "replicas: 8, networks: [{name: small}]") +
	gated(workload("StatefulSet", "db", "replicas: 3")) +
	cronTab("v1", "ct", `cronSpec: "@yearly", networks: [{name: green}]`)

// From the previous version to this one, back, and forward again: no pod is recreated or
// restarted, no address changes, and no version writes anything about the work of the other.
func TestUpgrade(t *testing.T) {
	old := buildPrevious(t)
	ns := newNamespace(t)
	controller := become(t, ns, old)
	create(t, ns, standingSystem)
	waitReady(t, ns, "pod2/web", "pod2/both")
	waitReplicas(t, ns, "many", 8)
	run(t, ns, "rollout", "status", "statefulset/db", "--timeout="+patience.String())
	setVersion(t, ns, "both", "2")
	run(t, ns, "wait", "--for=jsonpath={.status.updatedReplicas}=50", "pod2/both", "--timeout="+patience.String())
	waitReady(t, ns, "pod2/both")
	run(t, ns, "create", "job", "run", "--from=cronjob/ct")
	waitCondition(t, ns, "pod2/many", "Ready", "False")
	// The slowest write is that of an AddressSlice: it may wait for ten seconds.
	eventually(t, "the previous version has written nothing for 12 seconds", func(context.Context) (string, error) {
		lines, _ := writes(t, ns, time.Now().Add(-12*time.Second))
		return strings.Join(lines, "\n"), nil
	})
	held, is := render(addresses(t, ns)), uids(t, ns)
	if strings.Count(held, "\n") < 200 {
		t.Fatalf("only these addresses are bound:\n%s", held)
	}

	for _, version := range []string{root, old, root} {
		if err := controller.stop(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		stopped := time.Now()
		controller = become(t, ns, version)
		controller.requireQuiet(t, ns, stopped, "pods,pod2s,networks,statefulsets,crontabs")
		if got := render(addresses(t, ns)); got != held {
			t.Errorf("with %s, addresses are\n%s\nbefore\n%s", version, got, held)
		}
		if got := uids(t, ns); fmt.Sprint(got) != fmt.Sprint(is) {
			t.Errorf("with %s, pods were recreated:\n%v\nbefore\n%v", version, got, is)
		}
		requireUnique(t, ns)
		for _, plugin := range []string{root, old} {
			out, err := exec.CommandContext(t.Context(), filepath.Join(plugin, "bin/kubectl-pod2"), "--kubeconfig="+kubeconfig, "-n", ns, "addresses", "green").CombinedOutput()
			if err != nil || strings.Count(string(out), "Bound") != 100 {
				t.Errorf("kubectl pod2 of %s at %s: %v\n%s", plugin, version, err, out)
			}
		}
	}

	// The rollout continues, and the pods that wait get addresses when the Network grows.
	patchPod2(t, ns, "both", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	run(t, ns, "patch", "network", "small", "--type=merge", "-p", `{"spec":{"cidr":"10.30.0.0/28"}}`)
	run(t, ns, "wait", "--for=jsonpath={.status.updatedReplicas}=100", "pod2/both", "--timeout="+patience.String())
	waitReady(t, ns, "pod2/both", "pod2/many")
	now := render(addresses(t, ns))
	for line := range strings.Lines(held) {
		if line = strings.TrimSpace(line); strings.Contains(line, "=") && !strings.Contains(now, line) {
			t.Errorf("after the rollout, this pod has another address: %s", line)
		}
	}
}

// buildPrevious builds the programs of the previous version from the history of this repository.
func buildPrevious(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const build = `git -C "$0" archive "$2" | tar --extract --directory="$1" && cd "$1" && CGO_ENABLED=0 go build -trimpath -o bin/ . ./cmd/kubectl-pod2 && mv bin/pod2 bin/pod2-controller`
	if out, err := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", build, root, dir, previous).CombinedOutput(); err != nil {
		t.Fatalf("build commit %s (git fetch --unshallow gets it): %v\n%s", previous, err, out)
	}
	return dir
}

// become applies the definitions and policies of a version, in the order of docs/how-to/upgrade.md,
// and starts its controller.
func become(t *testing.T, ns, version string) *controller {
	t.Helper()
	for _, path := range []string{"crd", "artifacts"} {
		run(t, "", "apply", "-f", filepath.Join(version, path))
	}
	t.Setenv("POD2_CONTROLLER", filepath.Join(version, "bin/pod2-controller"))
	return startController(t, ns, withMetrics, "--namespace=")
}
