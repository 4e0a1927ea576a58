//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

func TestNodesAreReady(t *testing.T) {
	want := "node1 172.18.0.11 fd00:18::11 True\nnode2 172.18.0.12 fd00:18::12 True\nnode3 172.18.0.13 fd00:18::13 True"
	got := run(t, "", "get", "nodes", "--output=jsonpath={range .items[*]}{.metadata.name} "+
		`{.status.addresses[?(@.type=="InternalIP")].address} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
}

// A kubelet may read the objects that its own pods need, and nothing of another node. The Node
// authorizer and NodeRestriction are on, and the certificates name the nodes.
func TestKubeletIsOnlyItself(t *testing.T) {
	for _, c := range []struct{ node, want string }{
		{"node1", "node/node1 labeled (server dry run)"},
		{"node2", `Error from server (Forbidden): nodes "node2" is forbidden: User "system:node:node1" cannot get resource "nodes" ` +
			`in API group "" at the cluster scope: node: node 'node1' cannot read 'node2', only its own Node object`},
	} {
		out, _ := kubectl("", "label", "node", c.node, "example.com/a=b", "--dry-run=server", "--as=system:node:node1", "--as-group=system:nodes")
		if out != c.want {
			t.Errorf("node1 labels %s: got\n%s\nwant\n%s", c.node, out, c.want)
		}
	}
}

// The pods' first interface is on a network of all nodes. Through it they reach the API server,
// DNS and the world.
func TestDefaultNetwork(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "default-network")
	create(t, ns, server("one", "node1")+server("two", "node2"))
	waitReady(t, ns, "pod/one", "pod/two")
	two := run(t, ns, "get", "pod", "two", "--output=jsonpath={.status.podIP}")
	one := run(t, ns, "get", "pod", "one", "--output=jsonpath={.status.podIP}")
	requireProbe(t, ns, "one", two+":8080: two at "+two+", asked by "+one, "get", two+":8080")
	eventually(t, "the world answers", func() (string, error) {
		if got := probe(t, ns, "one", "get", "203.0.113.10:80"); !strings.HasSuffix(got, "at 203.0.113.10, asked by "+one) {
			return got, nil
		}
		return "", nil
	})
	requireProbe(t, ns, "one", "kubernetes.default.svc.cluster.local: 10.96.0.1", "lookup", "kubernetes.default.svc.cluster.local")
}

func TestLogsAndExec(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "logs-and-exec")
	create(t, ns, strings.Replace(server("wrong", "node3"), "[serve]", "[whistle]", 1)+server("right", "node3"))
	eventually(t, "the log of a container that fails", func() (string, error) {
		out, err := kubectl("", "--namespace", ns, "logs", "wrong")
		if want := "netprobe: there is no command whistle"; out != want {
			return "it is " + out, err
		}
		return "", err
	})
	waitReady(t, ns, "pod/right")
	if got, want := probe(t, ns, "right", "get", "localhost:1"), "localhost:1: connection refused"; got != want {
		t.Errorf("exec: got %s, want %s", got, want)
	}
}

// server is a manifest of a pod that serves, on a given node.
func server(name, node string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  nodeName: ` + node + `
  terminationGracePeriodSeconds: 1
  containers:
  - name: probe
    image: netprobe:e2e
    imagePullPolicy: Never
    args: [serve]
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
`
}
