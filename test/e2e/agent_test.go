//go:build e2e

package e2e

import (
	"strings"
	"testing"
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

// On a node without an agent, CNI makes the bridge for a new pod, but the bridge is not
// connected. The agent then connects it to the Network.
func TestPodBeforeAgent(t *testing.T) {
	ns := newNamespace(t, "before-agent")
	selector := func(value string) {
		run(t, "pod2-agent", "patch", "daemonset/pod2-agent", "--type=merge",
			`--patch={"spec":{"template":{"spec":{"nodeSelector":{"example.com/without-agent":`+value+`}}}}}`)
	}
	for _, node := range []string{"node1", "node2"} {
		run(t, "", "label", "node", node, "example.com/without-agent=no")
		t.Cleanup(func() { run(t, "", "label", "node", node, "example.com/without-agent-") })
	}
	t.Cleanup(func() {
		selector("null")
		run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
	})
	selector(`"no"`)
	run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
	eventually(t, "no agent on node3", func() (string, error) {
		return kubectl("", "--namespace=pod2-agent", "get", "pods", "--field-selector=spec.nodeName=node3", "--output=name")
	})
	waitNoDataPlane(t, "node3")
	waitDataPlane(t, "node1", "node2")

	create(t, ns, networks+alone("early", "node3", "blue")+alone("other", "node1", "blue")+hosts("look", "node3"))
	waitRunning(t, ns, "early", "other", "look")
	all := pods(t, ns, "app=alone")
	early, other := all["early"].Published["blue"].Address.Addr().String(), all["other"].Published["blue"].Address.Addr().String()
	vni := run(t, ns, "get", "network", "blue", "--output=jsonpath={.status.vni}")
	if got := names(probe(t, ns, "look", "links"), vni); got != "nw"+vni {
		t.Errorf("without an agent node3 has %q of the Network", got)
	}
	if got, want := probe(t, ns, "early", "get", other+":8080"), other+":8080: no answer"; got != want {
		t.Errorf("without an agent: got %s, want %s", got, want)
	}

	selector("null")
	run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
	waitDataPlane(t, "--all")
	requireAnswer(t, ns, "early", other+":8080", "other at "+other)
	requireAnswer(t, ns, "other", early+":8080", "early at "+early)
	if got, want := names(probe(t, ns, "look", "links"), vni), "nw"+vni+" rt"+vni+" vx"+vni+" wn"+vni; got != want {
		t.Errorf("node3 has %q of the Network, want %q", got, want)
	}
}

// names of a node's links that belong to a Network.
func names(links, vni string) string {
	var of []string
	for line := range strings.Lines(linesOf(links, "")) {
		if name := strings.Fields(line)[0]; strings.HasSuffix(name, vni) {
			of = append(of, name)
		}
	}
	return strings.Join(of, " ")
}
