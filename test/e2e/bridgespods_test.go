//go:build e2e && old

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// moving is the workload: replicas that come back on their node, because each node needs one;
// replicas that may come back on another node; and the pods of a DaemonSet, which a drain
// leaves.
var moving = networks + six + apart("stays", "blue") + apart("six", "six") + onNetwork("roams", "blue", "") + `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon}
spec:
  selector: {matchLabels: {app: daemon}}
  template:
    metadata:
      labels: {app: daemon, samplecrd.k8s.io/managed: "true"}
      annotations: {samplecrd.k8s.io/networks: green@eth0}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: probe, image: "netprobe:e2e", imagePullPolicy: Never, args: [serve]}]
`

// apart is onNetwork with a replica on each node.
func apart(name, network string) string {
	return onNetwork(name, network, "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, "+
		"whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: "+name+"}}}]")
}

// onNetwork is a Pod2 whose replicas have a Network as their only one, so they reach the world by it.
func onNetwork(name, network, more string) string {
	return strings.Replace(pod2(name, 3, "{name: "+network+", interface: eth0}", more),
		"{httpGet: {port: 8080}, periodSeconds: 1}", "{exec: {command: [/netprobe, get, '127.0.0.1:8080']}, periodSeconds: 1}", 1)
}

// sides are the pods of each Network.
func (m *move) sides(t *testing.T) []side {
	t.Helper()
	return []side{
		{"blue", "blue", pods(t, m.ns, "app in (stays,roams)")},
		{"six", "six", pods(t, m.ns, "app=six")},
		{"green", "green", pods(t, m.ns, "app=daemon")},
	}
}

func (m *move) waitPods(t *testing.T) {
	t.Helper()
	waitReady(t, m.ns, "pod2/stays", "pod2/roams", "pod2/six")
	run(t, m.ns, "rollout", "status", "daemonset/daemon", "--timeout="+patience.String())
}

// replicas returns the address of each replica. The pods of a DaemonSet have no addresses of their
// own.
func (m *move) replicas(t *testing.T) map[string]string {
	t.Helper()
	addresses := map[string]string{}
	for _, s := range m.sides(t)[:2] {
		for _, name := range s.names() {
			addresses[name] = s.address(name)
		}
	}
	return addresses
}

// requireTraffic expects that every pod reaches every pod of its Network, the gateway and the world.
func (m *move) requireTraffic(t *testing.T) {
	t.Helper()
	gateways := map[string]string{"blue": "192.168.0.1", "green": "192.168.0.1", "six": "fd00:77::1"}
	worlds := map[string]string{"blue": world, "green": world, "six": world6}
	nodes := map[string]string{"blue": "172.18.0.1", "green": "172.18.0.1", "six": "fd00:18::1"}
	pods := 0
	for _, s := range m.sides(t) {
		if s.network != "blue" || len(s.pods) == 6 {
			s.requireSpread(t)
		}
		reach := side{s.app, s.network, maps.Clone(s.pods)}
		maps.DeleteFunc(reach.pods, func(_ string, p pod) bool { return m.back && m.kinds[p.Node] == programs })
		for _, from := range reach.names() {
			reach.requireReaches(t, m.ns, from, func(to string) string { return s.address(to) })
		}
		for _, from := range s.names() {
			pods++
			requireGateway(t, m.ns, from, gateways[s.network])
			want := " at " + worlds[s.network] + ", asked by " + nodes[s.network] + strings.TrimPrefix(s.pods[from].Node, "node")
			eventually(t, from+" reaches the world", func() (string, error) {
				if got := probe(t, m.ns, from, "get", hostPort(worlds[s.network], 80)); !strings.HasSuffix(got, want) {
					return fmt.Sprintf("got %s, want %s", got, want), nil
				}
				return "", nil
			})
		}
	}
	if pods != 12 {
		t.Fatalf("%d pods, want 12", pods)
	}
	t.Logf("%d pods reach each other, gateways and the world, on nodes with %v", pods, m.kinds)
}
