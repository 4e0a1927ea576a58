//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
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

// Through eth0 on the nodes' own network, a pod reaches ports of all nodes, the API server and the metadata of clouds.
// Through a Network it reaches none of them, not even on its own node. The node counts each drop. The pods' eth0 has no IPv6
// address, so a node asks by IPv6.
func TestNoWayToNodesAndAPI(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "no-way")
	create(t, "default", apiSix)
	t.Cleanup(func() { run(t, "default", "delete", "endpointslice", "kubernetes-six") })
	create(t, ns, networks+six+alone("four", "node1", "blue@eth0")+alone("six", "node1", "six@eth0")+server("outside", "node1")+
		hosts("ports-1", "node1")+hosts("ports-2", "node2"))
	waitRunning(t, ns, "four", "six", "outside", "ports-1", "ports-2")
	for _, f := range []struct{ inside, outside, world, node1, node2, api, metadata string }{
		{"four", "outside", world, "172.18.0.11", "172.18.0.12", "10.96.0.1", "169.254.169.254"},
		{"six", "ports-1", world6, "fd00:18::11", "fd00:18::12", world6, "fd00:ec2::254"},
	} {
		t.Run(f.inside, func(t *testing.T) {
			targets := map[string]string{hostPort(f.api, 443): "api", hostPort(f.metadata, 80): "denied"} // and the reason of the drop
			for _, node := range []string{f.node1, f.node2} {
				targets[hostPort(node, 18080)], targets[hostPort(node, 10250)] = "node", "node"
			}
			eventually(t, "all targets answer "+f.outside, func() (string, error) {
				got := probe(t, ns, f.outside, append([]string{"get", "-timeout=1s"}, slices.Collect(maps.Keys(targets))...)...)
				if regexp.MustCompile("no answer|refused|route|unreachable").MatchString(got) {
					return got, nil
				}
				return "", nil
			})
			eventually(t, "the world answers", func() (string, error) {
				if got := probe(t, ns, f.inside, "get", hostPort(f.world, 80)); !strings.Contains(got, "asked by") {
					return got, nil
				}
				return "", nil
			})
			for target, reason := range targets {
				// Packets of other tests may count, too: a drop of none is certain.
				count := func() int { return dropped(t, "172.18.0.11", fmt.Sprintf("reason=%q", reason)) }
				before := count()
				if got, want := probe(t, ns, f.inside, "get", "-timeout=500ms", target), target+": no answer"; got != want {
					t.Errorf("through the Network: got %s, want %s", got, want)
				}
				if count() == before {
					t.Errorf("%s: no packet was dropped with the reason %s", target, reason)
				}
			}
		})
	}
}

// world and world6 are outside the cluster.
const world, world6 = "203.0.113.10", "2001:db8:113::10"

// apiSix says that the API server has an IPv6 address, too: one of the machine of the control plane.
const apiSix = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kubernetes-six, labels: {kubernetes.io/service-name: kubernetes}}
addressType: IPv6
endpoints: [{addresses: ["` + world6 + `"]}]
ports: [{name: https, port: 443}]
---
`

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
