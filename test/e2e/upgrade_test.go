//go:build e2e && old

package e2e

import (
	"os"
	"strings"
	"testing"
)

// From the previous version to this one, back, and forward again. The controller and the agents of
// all nodes are replaced. No packet between pods is lost, no pod restarts, and each replica keeps
// its address.
func TestUpgradeLosesNoPacket(t *testing.T) {
	ns := newNamespace(t, "upgrade")
	create(t, ns, networks+spread("r", 3, "{name: blue}"))
	waitReady(t, ns, "pod2/r")
	all, before := pods(t, ns, "app=r"), replicas(t, ns)
	targets := map[string]string{"r-0": "r-1", "r-1": "r-2", "r-2": "r-0"}
	for _, version := range []string{"new", "old", "new"} {
		stops := map[string]func() string{}
		for from, to := range targets {
			at := all[to].Published["blue"].Address.Addr().String()
			requireAnswer(t, ns, from, at+":8080", to+" at "+at)
			stops[from] = pinging(t, ns, from, at+":8080")
		}
		become(t, version)
		for from, stop := range stops {
			got := stop()
			t.Logf("to the %s version: %s to %s: %s", version, from, targets[from], got)
			if sent, received := counts(t, got); sent < 100 || received != sent {
				t.Errorf("to the %s version: %s to %s: %s", version, from, targets[from], got)
			}
		}
		if after := replicas(t, ns); after != before {
			t.Errorf("with the %s version, there is\n%s\nbefore there was\n%s", version, after, before)
		}
	}
}

// replicas are the pods with their node, restarts and addresses.
func replicas(t *testing.T, ns string) string {
	t.Helper()
	return run(t, ns, "get", "pods", "--selector=app=r", `--output=jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.spec.nodeName} {.status.containerStatuses[*].restartCount} {.metadata.annotations.samplecrd\.k8s\.io/addresses}{"\n"}{end}`)
}

// become replaces the controller, then the agents, as docs/how-to/upgrade.md says. The definitions
// are never older than before.
func become(t *testing.T, version string) {
	t.Helper()
	before := agents(t)
	if version == "new" {
		run(t, "", "apply", "-f", released("install.yaml"))
		run(t, "pod2-system", "rollout", "status", "deployment/pod2-controller", "--timeout="+patience.String())
		run(t, "", "apply", "-f", released("install-dataplane.yaml"))
	} else {
		manifests, err := manifestsOf(os.Getenv("E2E_OLD"))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := kubectl(manifests, "apply", "-f", "-"); err != nil {
			t.Fatalf("apply the old version: %v\n%s", err, out)
		}
		run(t, "pod2-system", "rollout", "status", "deployment/pod2-controller", "--timeout="+patience.String())
	}
	run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
	eventually(t, "three other agents, all of the "+version+" version", func() (string, error) {
		after := agents(t)
		for line := range strings.Lines(after) {
			name, image, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.Contains(before, name) || (image == "pod2-agent:old") != (version == "old") {
				return after, nil
			}
		}
		if strings.Count(after, "\n") != 2 {
			return after, nil
		}
		return "", nil
	})
}

// agents are the pods of the agent, with their images.
func agents(t *testing.T) string {
	t.Helper()
	return run(t, "pod2-agent", "get", "pods", `--output=jsonpath={range .items[*]}{.metadata.name} {.spec.containers[0].image}{"\n"}{end}`)
}
