//go:build e2e

package e2e

import (
	"bufio"
	"strings"
	"testing"
	"time"
)

// VXLAN is not authenticated, so a sender that reaches a node's port 4789 could send into any
// Network. Pods of the nodes' own network can send there. None of their packets arrives at a
// pod of the Network, from the pod's own node or from another. A packet from a node does
// arrive, which shows that the test sends valid packets.
func TestNoInjectionByPods(t *testing.T) {
	ns := newNamespace(t, "inject")
	create(t, ns, networks+alone("target", "node1", "blue@eth0")+server("near", "node1")+server("far", "node2")+hosts("node", "node2"))
	waitRunning(t, ns, "target", "near", "far", "node")
	at := pods(t, ns, "app=alone")["target"].Published["blue"]
	vni := run(t, ns, "get", "network", "blue", "--output=jsonpath={.status.vni}")
	requireGateway(t, ns, "target", "192.168.0.1") // the agent has connected it
	send := func(from, text string) {
		t.Helper()
		probe(t, ns, from, "inject", "172.18.0.11", vni, at.MAC, at.Address.Addr().String()+":4000", text)
	}

	// A pod's first packet may wait for a neighbour, and a later one may overtake it.
	heard := hearing(t, ns, "target", ":4000", "from the node")
	for range 3 {
		send("near", "from a pod of its node")
		send("far", "from a pod of another node")
		time.Sleep(100 * time.Millisecond)
	}
	send("node", "from the node")
	if got := heard(); got != "from the node" {
		t.Errorf("the pod heard\n%s", got)
	}
}

// hearing lets a pod listen for datagrams. heard waits for the last one and returns all.
func hearing(t *testing.T, ns, pod, address, last string) (heard func() string) {
	t.Helper()
	cmd := command("--namespace", ns, "exec", pod, "--", "/netprobe", "hear", "-timeout=90s", address, last)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "listening" {
		t.Fatalf("hear %s in %s says %q: %v", address, pod, lines.Text(), lines.Err())
	}
	return func() string {
		t.Helper()
		var all []string
		for lines.Scan() {
			all = append(all, lines.Text())
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("hear %s in %s: %v", address, pod, err)
		}
		return strings.Join(all, "\n")
	}
}
