//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// VXLAN is not authenticated, so a sender that reaches a node's port 4789 could send into any
// Network. Pods of the nodes' own network can send there, and programs of the nodes, by both addresses of a node. None of their
// packets arrives at a pod of the Network, from its own node or from one without pods of the Network.
// The nodes count the packets, so they take them for VXLAN of a Network.
func TestNoInjectionByPods(t *testing.T) {
	ns := newNamespace(t, "inject")
	create(t, ns, networks+six+bridged+alone("target", "node1", "blue@eth0, six")+alone("peer", "node3", "blue@eth0, six")+
		alone("near", "node1", "wire6")+alone("far", "node2", "wire6")+hosts("node", "node2"))
	waitRunning(t, ns, "target", "peer", "near", "far", "node")
	for network, gateway := range map[string]string{"blue": "192.168.0.1", "six": "fd00:77::1"} {
		t.Run(network, func(t *testing.T) {
			at := pods(t, ns, "app=alone")["target"].Published[network]
			address := hostPort(at.Address.Addr().String(), 4000)
			vni := run(t, ns, "get", "network", network, "--output=jsonpath={.status.vni}")
			requireGateway(t, ns, "target", gateway) // the agent has connected it
			requireGateway(t, ns, "peer", gateway)

			const times = 3 // a pod's first packet may wait for a neighbour, and a later one may overtake it
			type counter struct{ node, reason string }
			count := func(c counter) int { return dropped(t, c.node, fmt.Sprintf("reason=%q", c.reason)) }
			want := map[counter]int{ // a node sends VXLAN by IPv4, so the receiver drops it by IPv6
				{"172.18.0.11", "vxlan"}: 3 * times, {"172.18.0.12", "vxlan"}: 2 * times, {"172.18.0.12", "injected"}: times,
			}
			for c := range want {
				want[c] += count(c)
			}
			heard := hearing(t, ns, "target", ":4000", "from a peer")
			for range times {
				for from, text := range map[string]string{"near": "from a pod of its node", "far": "from a pod of another node", "node": "from a node"} {
					probe(t, ns, from, "inject", "172.18.0.11", vni, at.MAC, address, text)
					probe(t, ns, from, "inject", "fd00:18::11", vni, at.MAC, address, text+" by IPv6")
				}
				time.Sleep(100 * time.Millisecond)
			}
			probe(t, ns, "peer", "say", address, "from a peer")
			if got := heard(); got != "from a peer" {
				t.Errorf("the pod heard\n%s", got)
			}
			for c, want := range want {
				eventually(t, c.node+" drops all with the reason "+c.reason, func() (string, error) {
					if got := count(c); got < want {
						return fmt.Sprintf("it dropped %d, want %d", got, want), nil
					}
					return "", nil
				})
			}
		})
	}
}

// A raw socket can skip the programs of its node's network. No program of the node can make one, or the node's agent reports that
// the kernel cannot refuse it. In a pod's own network, a program can: the pod's port has the programs on the other end.
func TestNoSocketSkipsPrograms(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "skip")
	create(t, ns, networks+alone("pod", "node2", "blue")+hosts("node", "node2"))
	waitRunning(t, ns, "pod", "node")
	forge := func(pod, dev string) (string, error) {
		return kubectl("", "--namespace", ns, "exec", pod, "--", "/netprobe", "forge", "-skip-tc", dev,
			"0a:58:c0:a8:00:02", "192.168.0.2", "0a:58:c0:a8:00:03", "192.168.0.3:4000", "text")
	}
	if out, err := forge("pod", "net1"); err != nil {
		t.Errorf("in the pod: %v\n%s", err, out)
	}
	out, err := forge("node", "eth0")
	refused := err != nil && strings.Contains(out, "make a socket that skips tc: operation not permitted")
	agent := run(t, "pod2-agent", "get", "pods", "--field-selector=spec.nodeName=node2", "--output=name")
	if problem := run(t, "pod2-agent", "logs", agent, "--tail=-1"); !refused && !strings.Contains(problem, "may send past the eBPF programs") {
		t.Errorf("in the node's network: %v\n%s", err, out)
	}
}

// bridged are Networks on one bridge, which each node has for itself. By wire6, pods reach IPv6 addresses of nodes.
const bridged = `
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: wire}
spec: {cidr: 10.77.0.0/24, attachment: {type: CNI, config: '{"type": "bridge", "bridge": "e2ewire"}'}}
---
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: wire6}
spec: {cidr: "fd00:78::/64", attachment: {type: CNI, config: '{"type": "bridge", "bridge": "e2ewire", "isGateway": true, "ipam": {"routes": [{"dst": "fd00:18::/64"}]}}'}}
---
`

var drops = regexp.MustCompile(`(?m)^pod2_agent_dropped_packets_total\{(.*)\} (\d+)$`)

// dropped is how many packets a node has dropped, by labels of the counter.
func dropped(t *testing.T, node, labels string) (count int) {
	t.Helper()
	response, err := http.Get("http://" + node + ":9750/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range drops.FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.Atoi(line[2])
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line[1], labels) {
			count += n
		}
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
