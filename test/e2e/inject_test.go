//go:build e2e

package e2e

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// VXLAN is not authenticated, so a sender that reaches a node's port 4789 could send into any
// Network. Pods of the nodes' own network can send there, and programs of the nodes. None of their
// packets arrives at a pod of the Network, from its own node or from one without pods of the Network.
// That node counts the packets, so it takes them for VXLAN of a Network.
func TestNoInjectionByPods(t *testing.T) {
	ns := newNamespace(t, "inject")
	create(t, ns, networks+alone("target", "node1", "blue@eth0")+alone("peer", "node3", "blue@eth0")+server("near", "node1")+server("far", "node2")+hosts("node", "node2"))
	waitRunning(t, ns, "target", "peer", "near", "far", "node")
	at := pods(t, ns, "app=alone")["target"].Published["blue"]
	address := at.Address.Addr().String() + ":4000"
	vni := run(t, ns, "get", "network", "blue", "--output=jsonpath={.status.vni}")
	requireGateway(t, ns, "target", "192.168.0.1") // the agent has connected it
	requireGateway(t, ns, "peer", "192.168.0.1")

	heard, before := hearing(t, ns, "target", ":4000", "from a peer"), injected(t)
	const times = 3 // a pod's first packet may wait for a neighbour, and a later one may overtake it
	for range times {
		for from, text := range map[string]string{"near": "from a pod of its node", "far": "from a pod of another node", "node": "from a node"} {
			probe(t, ns, from, "inject", "172.18.0.11", vni, at.MAC, address, text)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := injected(t) - before; got < times {
		t.Errorf("node2 dropped %d packets of its own", got)
	}
	probe(t, ns, "peer", "say", address, "from a peer")
	if got := heard(); got != "from a peer" {
		t.Errorf("the pod heard\n%s", got)
	}
}

var injectedDrops = regexp.MustCompile(`(?m)^pod2_agent_dropped_packets_total\{.*reason="injected".*\} (\d+)$`)

// injected is how many packets of node2 itself were dropped there.
func injected(t *testing.T) (count int) {
	t.Helper()
	response, err := http.Get("http://172.18.0.12:9750/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range injectedDrops.FindAllSubmatch(page, -1) {
		n, err := strconv.Atoi(string(line[1]))
		if err != nil {
			t.Fatal(err)
		}
		count += n
	}
	return count
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
