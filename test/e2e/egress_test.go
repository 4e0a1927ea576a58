//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A pod's default route may be a Network, if the pod asks for the Network on eth0. It has no
// other interface then.
func TestNetworkIsDefaultRoute(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "default-route")
	create(t, ns, networks+shut+alone("open", "node1", "blue@eth0, green@net1")+alone("closed", "node2", "shut@eth0"))
	waitRunning(t, ns, "open", "closed")
	all := pods(t, ns, "app=alone")
	blue, green := all["open"].Published["blue"], all["open"].Published["green"]
	t.Run("its interfaces have the requested names", func(t *testing.T) {
		want := fmt.Sprintf("eth0 up mtu 1450 %s %s\nnet1 up mtu 1450 %s %s", blue.MAC, blue.Address, green.MAC, green.Address)
		if got := probe(t, ns, "open", "links"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("its default route is the Network", func(t *testing.T) {
		want := "default via 192.168.0.1 dev eth0 metric 0"
		if got := linesOf(probe(t, ns, "open", "routes"), "default"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("the world sees the node's address", func(t *testing.T) {
		eventually(t, "egress", func() (string, error) {
			got := probe(t, ns, "open", "get", world+":80")
			if !strings.HasSuffix(got, " at "+world+", asked by 172.18.0.11") {
				return got, nil
			}
			return "", nil
		})
	})
	t.Run("DNS works through the gateway", func(t *testing.T) {
		requireProbe(t, ns, "open", "kubernetes.default.svc.cluster.local: 10.96.0.1", "lookup", "kubernetes.default.svc.cluster.local")
	})
	t.Run("no egress on a Network without egress", func(t *testing.T) {
		requireGateway(t, ns, "closed", "192.168.0.1")
		if got, want := probe(t, ns, "closed", "get", world+":80"), world+":80: no answer"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("no DNS on a Network without egress", func(t *testing.T) {
		if got := probe(t, ns, "closed", "lookup", "kubernetes.default.svc.cluster.local"); !strings.HasSuffix(got, "i/o timeout") {
			t.Errorf("got %s, want a timeout", got)
		}
	})
}

// Through eth0 on the nodes' own network, a pod reaches ports of all nodes and the API server.
// Through a Network it reaches none of them, not even on its own node.
func TestNoWayToNodesAndAPI(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "no-way")
	create(t, ns, networks+alone("inside", "node1", "blue@eth0")+server("outside", "node1")+
		hosts("ports-1", "node1")+hosts("ports-2", "node2"))
	waitRunning(t, ns, "inside", "outside", "ports-1", "ports-2")
	targets := []string{"172.18.0.11:18080", "172.18.0.12:18080", "172.18.0.11:10250", "172.18.0.12:10250", "10.96.0.1:443"}
	answered := func(from string) string {
		var lines []string
		for line := range strings.Lines(probe(t, ns, from, append([]string{"get", "-timeout=1s"}, targets...)...)) {
			if !strings.Contains(line, "no answer") && !strings.Contains(line, "refused") && !strings.Contains(line, "route") {
				lines = append(lines, line[:strings.LastIndex(line[:20], ":")])
			}
		}
		return strings.Join(lines, " ")
	}
	eventually(t, "all targets answer a pod on the nodes' network", func() (string, error) {
		if n := len(strings.Fields(answered("outside"))); n != len(targets) {
			return answered("outside"), nil
		}
		return "", nil
	})
	eventually(t, "the world answers", func() (string, error) {
		if got := probe(t, ns, "inside", "get", world+":80"); !strings.Contains(got, "asked by") {
			return got, nil
		}
		return "", nil
	})
	if got := answered("inside"); got != "" {
		t.Errorf("reached through the Network: %s", got)
	}
}

// world is outside the cluster.
const world = "203.0.113.10"

// shut is a Network that no packet leaves.
const shut = `
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: shut}
spec: {cidr: 192.168.0.0/16, egress: None}
---
`

// alone is a pod that is not a replica. Its annotation asks for Networks. It has no readiness
// probe, because a node cannot reach a Network.
func alone(name, node, networks string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: alone}, annotations: {samplecrd.k8s.io/networks: %[3]q}}
spec:
  nodeSelector: {kubernetes.io/hostname: %[2]s}
  terminationGracePeriodSeconds: 1
  containers:
  - name: probe
    image: netprobe:e2e
    imagePullPolicy: Never
    args: [serve]
---
`, name, node, networks)
}

// hosts is a pod in the network of its node, with a server on port 18080 there.
func hosts(name, node string) string {
	return strings.NewReplacer("[serve]", `[serve, ":18080"]`, "  nodeName:", "  hostNetwork: true\n  nodeName:",
		"port: 8080", "port: 18080").Replace(server(name, node))
}
