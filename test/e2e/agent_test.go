//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/agent/cni"
)

// All agents are replaced, and no packet is lost. An agent leaves its data plane behind, and
// the next one does not touch the parts that are right.
func TestAgentRestartMovesNoPacket(t *testing.T) {
	ns := newNamespace(t, "agent-restart")
	create(t, ns, networks+spread("r", 3, "{name: blue}"))
	waitReady(t, ns, "pod2/r")
	all := pods(t, ns, "app=r")
	targets := map[string]string{"r-0": "r-1", "r-1": "r-2", "r-2": "r-0"}
	stops := map[string]func() string{}
	for from, to := range targets {
		at := all[to].Published["blue"].Address.Addr().String()
		requireAnswer(t, ns, from, at+":8080", to+" at "+at)
		stops[from] = pinging(t, ns, from, at+":8080")
	}
	before := run(t, "pod2-agent", "get", "pods", "--output=name")
	run(t, "pod2-agent", "rollout", "restart", "daemonset/pod2-agent")
	run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
	for name := range strings.FieldsSeq(before) {
		if out, err := kubectl("", "--namespace=pod2-agent", "get", name); err == nil {
			t.Errorf("it still exists: %s", out)
		}
	}
	for from, stop := range stops {
		got := stop()
		t.Logf("%s to %s: %s", from, targets[from], got)
		if sent, received := counts(t, got); sent < 100 || received != sent {
			t.Errorf("%s to %s: %s", from, targets[from], got)
		}
	}
}

// The agent is not privileged, and turns on the node's forwarding when something turned it off: the node's /proc/sys/net is
// mounted in its container.
func TestAgentTurnsOnForwarding(t *testing.T) {
	if got := run(t, "pod2-agent", "get", "pods", "--output=jsonpath={.items[*].spec.containers[*].securityContext.privileged}"); got != "" {
		t.Errorf("privileged: %s", got)
	}
	ns := newNamespace(t, "forwarding") // a node without pods on Networks needs no forwarding
	create(t, ns, networks+alone("one", "node2", "blue@eth0"))
	waitRunning(t, ns, "one")
	node := filepath.Base(firstProcess(t, "node2"))
	shell := func(script string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "nsenter", "--target", node, "--mount", "--net", "--", "sh", "-c", script).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := shell("echo 0 >/proc/sys/net/ipv4/ip_forward"); err != nil {
		t.Fatalf("turn off forwarding: %v\n%s", err, out)
	}
	eventually(t, "node2 forwards", func() (string, error) {
		got, err := shell("cat /proc/sys/net/ipv4/ip_forward")
		if got == "1" {
			return "", err
		}
		return "net.ipv4.ip_forward is " + got, err
	})
}

// On a node without an agent, a pod on an Overlay Network waits, and an event says why. It starts
// when the agent is back.
func TestPodWaitsForAgent(t *testing.T) {
	ns := newNamespace(t, "before-agent")
	restore := withoutAgent(t, "node3")
	create(t, ns, networks+alone("early", "node3", "blue")+alone("other", "node1", "blue"))
	waitRunning(t, ns, "other")
	waitUnattached(t, ns, "early", agentAway)
	eventually(t, "early waits in ContainerCreating", func() (string, error) { // the kubelet may write the event first
		got, err := kubectl("", "--namespace", ns, "get", "pod", "early", "--output=jsonpath={.status.phase} {.status.containerStatuses[*].state.waiting.reason}")
		if got == "Pending ContainerCreating" {
			return "", err
		}
		return "early is " + got, err
	})

	restore()
	waitRunning(t, ns, "early")
	all := pods(t, ns, "app=alone")
	early, other := all["early"].Published["blue"].Address.Addr().String(), all["other"].Published["blue"].Address.Addr().String()
	requireAnswer(t, ns, "early", other+":8080", "other at "+other)
	requireAnswer(t, ns, "other", early+":8080", "early at "+early)
}

// A pod whose node has no agent can be deleted, whether it was attached before or waits.
func TestPodIsDeletedWithoutAgent(t *testing.T) {
	ns := newNamespace(t, "delete-without-agent")
	create(t, ns, networks+alone("attached", "node3", "blue")+hosts("look", "node3"))
	waitRunning(t, ns, "attached", "look")
	ports := func() string { return linesOf(probe(t, ns, "look", "links"), cni.InterfacePrefix) }
	before := ports()
	withoutAgent(t, "node3")
	create(t, ns, alone("waiting", "node3", "blue"))
	waitUnattached(t, ns, "waiting", agentAway)
	run(t, ns, "delete", "pod", "attached", "waiting", "--timeout="+patience.String())
	if after := ports(); strings.Count(after, "\n") != strings.Count(before, "\n")-1 {
		t.Errorf("node3 had the interfaces\n%s\nand has\n%s", before, after)
	}
}

const agentAway = "the pod waits until pod2-agent runs on this node"

// waitUnattached waits until an event says why the pod is not attached.
func waitUnattached(t *testing.T, ns, pod, want string) {
	t.Helper()
	eventually(t, "an event of "+pod+" says "+want, func() (string, error) {
		out, err := kubectl("", "--namespace", ns, "get", "events", "--field-selector=reason=FailedCreatePodSandBox,involvedObject.name="+pod, "--output=jsonpath={.items[*].message}")
		if strings.Contains(out, want) {
			return "", err
		}
		return "events say " + out, err
	})
}

// withoutAgent keeps the agent off a node until restore is called, or until the test ends.
func withoutAgent(t *testing.T, node string) (restore func()) {
	t.Helper()
	selector := func(value string) {
		run(t, "pod2-agent", "patch", "daemonset/pod2-agent", "--type=merge",
			`--patch={"spec":{"template":{"spec":{"nodeSelector":{"example.com/without-agent":`+value+`}}}}}`)
		run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
	}
	for _, other := range []string{"node1", "node2", "node3"} {
		if other != node {
			run(t, "", "label", "node", other, "example.com/without-agent=no")
			t.Cleanup(func() { run(t, "", "label", "node", other, "example.com/without-agent-") })
		}
	}
	restore = func() { selector("null") }
	t.Cleanup(restore)
	selector(`"no"`)
	eventually(t, "no agent on "+node, func() (string, error) {
		return kubectl("", "--namespace=pod2-agent", "get", "pods", "--field-selector=spec.nodeName="+node, "--output=name")
	})
	return restore
}
