//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const dataPlaneReady = "samplecrd.k8s.io/DataPlaneReady"

// agentsOn applies the agent's own manifest for one node.
func agentsOn(t *testing.T, node string) (remove func()) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "artifacts/agent/daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := strings.Replace(string(text), "nodeSelector: {kubernetes.io/os: linux}", "nodeSelector: {kubernetes.io/hostname: "+node+"}", 1)
	if manifest == string(text) {
		t.Fatal("the DaemonSet has no nodeSelector to replace")
	}
	if out, err := kubectlWith(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("apply the agent: %v\n%s", err, out)
	}
	remove = func() {
		if out, err := kubectlWith(context.Background(), manifest, "delete", "--ignore-not-found", "--timeout="+patience.String(), "-f", "-"); err != nil {
			t.Errorf("delete the agent: %v\n%s", err, out)
		}
	}
	t.Cleanup(remove)
	return remove
}

// nodeConditions returns the conditions of a Node: "Ready=True
// samplecrd.k8s.io/DataPlaneReady=True".
func nodeConditions(t *testing.T, node string) string {
	t.Helper()
	n, err := kube.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range n.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// With the rights of its role, the controller reports the readiness of the agents of
// artifacts/.
func TestNodeSaysWhetherItsAgentIsReady(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	node := "node-" + ns
	ownNode(t, ns, node)
	run(t, "", "label", "node", node, "kubernetes.io/hostname="+node)
	as := []string{"--kubeconfig", asServiceAccount(t), "--agent-namespace=pod2-agent", withMetrics}
	c := startController(t, ns, as...)
	run(t, "", "wait", "--for=condition=Ready", "node/"+node, "--timeout="+patience.String())
	// Any user may label a pod in the user's own namespace.
	create(t, ns, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: forged, labels: {app.kubernetes.io/name: pod2-agent}}\n"+
		"spec: {nodeName: %s, containers: [{name: c, image: registry.k8s.io/pause:3.10}]}\n", node))
	waitReady(t, ns, "pod/forged")
	c.waitIdle(t, 1)
	without := nodeConditions(t, node)
	if strings.Contains(without, dataPlaneReady) {
		t.Errorf("without an agent the Node has %s", without)
	}

	remove := agentsOn(t, node)
	const ready = "True AgentReady: Data plane is programmed"
	waitCondition(t, "", "node/"+node, dataPlaneReady, ready)
	run(t, "pod2-agent", "annotate", "pod", "--all", "kwok.samplecrd.k8s.io/ready=false")
	waitCondition(t, "", "node/"+node, dataPlaneReady, "False AgentNotReady: no pod2-agent pod on this node is Ready, so the data plane may be incomplete: run "+
		"kubectl --namespace=pod2-agent get pods --field-selector=spec.nodeName="+node)
	run(t, "pod2-agent", "annotate", "pod", "--all", "kwok.samplecrd.k8s.io/ready-")
	waitCondition(t, "", "node/"+node, dataPlaneReady, ready)
	// Another Node with the name.
	if err := kube.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ownNode(t, ns, node)
	run(t, "", "label", "node", node, "kubernetes.io/hostname="+node)
	waitCondition(t, "", "node/"+node, dataPlaneReady, ready)
	run(t, "pod2-agent", "rollout", "restart", "daemonset/pod2-agent")
	run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
	waitCondition(t, "", "node/"+node, dataPlaneReady, ready)

	// L2: a restarted controller finds everything in order, also when it looks again.
	if err := c.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	since := time.Now()
	c = startController(t, ns, as...)
	syncs := c.waitIdle(t, 1)
	run(t, "", "annotate", "node", node, "example.com/touched=true")
	c.waitIdle(t, syncs+1)
	if got := nodeWrites(t, node, since); len(got) > 0 {
		t.Errorf("after a restart the controller wrote %s", got)
	}

	remove()
	eventually(t, "the condition is gone with the agent", func(context.Context) (string, error) {
		if got := nodeConditions(t, node); got != without {
			return "the Node has " + got, nil
		}
		return "", nil
	})
	if log := c.log.String(); strings.Contains(log, "forbidden") {
		t.Errorf("the controller was refused:\n%s", grep(log, "forbidden"))
	}
}

func nodeWrites(t *testing.T, node string, since time.Time) []string {
	t.Helper()
	lines, _ := writes(t, "", since)
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, " nodes/"+node) })
}

// The policy allows the controller's account to change one condition of a Node only, even
// if its role allows more.
func TestTheControllerWritesOneConditionOfNodes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	node := "node-" + ns
	ownNode(t, ns, node)
	run(t, "", "wait", "--for=condition=Ready", "node/"+node, "--timeout="+patience.String())
	run(t, "", "annotate", "node", node, "example.com/a=b")
	// The most images that a kubelet reports by default. Comparing them has a cost, which
	// is limited.
	images := `{"names":["` + strings.Repeat("r", 200) + `","` + strings.Repeat("s", 200) + `"],"sizeBytes":1}`
	run(t, "", "patch", "node", node, "--subresource=status", `--patch={"status":{"images":[`+strings.Repeat(images+",", 49)+images+`]}}`)
	create(t, "", fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules: [{apiGroups: [""], resources: [nodes, nodes/status], verbs: [create, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, name: pod2-controller, namespace: %[2]s}, {kind: ServiceAccount, name: other, namespace: %[2]s}]
`, node, ns))
	t.Cleanup(func() { run(t, "", "delete", "clusterrole/"+node, "clusterrolebinding/"+node) })
	account := func(namespace, name string) *user {
		return knownUser(t, "", "system:serviceaccount:"+namespace+":"+name)
	}
	installed, wide, other := account("pod2-system", "pod2-controller"), account(ns, "pod2-controller"), account(ns, "other")

	patch := func(u *user, patch string, subresources ...string) string {
		_, err := u.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}).Patch(t.Context(), node, types.StrategicMergePatchType,
			[]byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
		return refusal(err)
	}
	const (
		refused = "the controller of Networks may change only the condition samplecrd.k8s.io/DataPlaneReady of a Node"
		address = `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`
	)
	for _, u := range []*user{wide, other} {
		eventually(t, "RBAC lets "+u.name+" write Nodes", func(context.Context) (string, error) {
			if got := patch(u, `{"metadata":{"labels":{"a":"c"}}}`, "status"); strings.Contains(got, "cannot patch") {
				return "got " + got, nil
			}
			return "", nil
		})
	}
	eventually(t, "pod2-nodes is in force", func(context.Context) (string, error) {
		if got := patch(installed, address, "status"); !strings.Contains(got, refused) {
			return fmt.Sprintf("the answer to the probe is %q", got), nil
		}
		return "", nil
	})
	for _, c := range []struct {
		what, patch, want string
	}{
		{"the condition", `{"status":{"conditions":[{"type":"samplecrd.k8s.io/DataPlaneReady","status":"False","reason":"A","message":"b"}]}}`, ""},
		{"condition removed", `{"status":{"conditions":[{"type":"samplecrd.k8s.io/DataPlaneReady","$patch":"delete"}]}}`, ""},
		{"nothing", `{}`, ""},
		{"addresses", address, refused},
		{"addresses removed", `{"status":{"addresses":[{"$patch":"replace"}]}}`, refused},
		{"a condition of the kubelet", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, refused},
		{"a condition of the kubelet and the allowed one", `{"status":{"conditions":[{"type":"samplecrd.k8s.io/DataPlaneReady","status":"False"},{"type":"Ready","status":"False"}]}}`, refused},
		{"one condition less", `{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}`, refused},
		{"a condition of another controller", `{"status":{"conditions":[{"type":"samplecrd.k8s.io/Other","status":"True"}]}}`, refused},
		{"the capacity", `{"status":{"capacity":{"example.com/gpu":"1"}}}`, refused},
		{"a field that was unset", `{"status":{"volumesInUse":["a"]}}`, refused},
		{"its kubelet's port", `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}`, refused},
		{"a label", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, refused},
		{"another label", `{"metadata":{"labels":{"test.example.com/of":"x"}}}`, refused},
		{"an annotation", `{"metadata":{"annotations":{"example.com/a":"c"}}}`, refused},
		{"annotation removed", `{"metadata":{"annotations":{"example.com/a":null}}}`, refused},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/a"]}}`, refused},
	} {
		outcome(t, "the controller writes "+c.what, patch(installed, c.patch, "status"), c.want)
	}
	outcome(t, "the account in another namespace writes addresses", patch(wide, address, "status"), refused)
	outcome(t, "it taints", patch(wide, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`), refused)
	outcome(t, "the controller changes labels", patch(wide, `{"metadata":{"labels":{"a":"b"}}}`), refused)
	outcome(t, "the controller creates a Node", wide.createAt(t, parse(t, "apiVersion: v1\nkind: Node\nmetadata: {name: new}\n"), schema.GroupVersionResource{Version: "v1", Resource: "nodes"}), refused)
	outcome(t, "another user writes addresses", patch(other, address, "status"), "")

	// The command of docs/contributing/data-plane.md for the case that no controller runs.
	before := nodeConditions(t, node)
	run(t, "", "patch", "node", node, "--subresource=status", `--patch={"status":{"conditions":[{"type":"samplecrd.k8s.io/DataPlaneReady","status":"True"}]}}`)
	if got := nodeConditions(t, node); !strings.Contains(got, dataPlaneReady) {
		t.Errorf("the Node has %s", got)
	}
	run(t, "", "patch", "node", node, "--subresource=status", `--patch={"status":{"conditions":[{"type":"samplecrd.k8s.io/DataPlaneReady","$patch":"delete"}]}}`)
	if got := nodeConditions(t, node); got != before {
		t.Errorf("the Node has %s, and had %s", got, before)
	}
}
