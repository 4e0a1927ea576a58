//go:build e2e && old

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMoveFromBridges begins with the version with bridges. It moves the nodes to the eBPF
// programs as docs/contributing/earlier-data-planes.md says, and back. Meanwhile pods of nodes of both kinds
// reach each other and the world, and replicas keep their addresses.
func TestMoveFromBridges(t *testing.T) {
	checkout := os.Getenv("E2E_OLD")
	ns := newNamespace(t, "move")
	t.Cleanup(func() { run(t, ns, "delete", "daemonset", "daemon", "--timeout="+patience.String()) })
	create(t, ns, moving)
	m := &move{ns: ns, kinds: map[string]string{}}
	m.waitPods(t)
	m.before = m.replicas(t)
	for _, network := range []string{"blue", "six"} {
		m.vnis = append(m.vnis, run(t, ns, "get", "network", network, "--output=jsonpath={.status.vni}"))
	}
	for _, node := range allNodes {
		m.kinds[node] = bridges
	}
	m.require(t)

	page := upgradePages(t)
	const from, back = "## From a version with bridges", "## Back to a version with bridges"
	there := reader{page: page, dir: root, tag: "new"}
	there.follow(t, "## 1. Apply the definitions")
	there.follow(t, "## 2. Apply the roles and policies")
	there.follow(t, "## 3. Roll out the controller")
	there.fence(t, from, 0) // cordon
	there.fence(t, from, 1) // the DaemonSet
	m.requireRightsOfOldAgents(t)
	for _, node := range allNodes {
		if node == "node2" {
			m.withoutDrain(t, node, "drain the node")
			m.requireNewPodWaits(t, node, "drain the node")
		}
		m.replace(t, there, node, programs)
	}
	there.follow(t, "## 4. Roll out the agent")
	there.fence(t, from, 3) // the right of old agents
	m.require(t)

	again := reader{page: page, dir: checkout, tag: "old"}
	again.follow(t, "## 2. Apply the roles and policies")
	again.follow(t, "## 3. Roll out the controller")
	again.fence(t, from, 0)
	again.save(t, back)
	again.fence(t, back, 0)
	m.back = true
	for _, node := range allNodes {
		if node == "node2" {
			m.withoutDrain(t, node, "pods of this node use the plugin")
		}
		m.replace(t, again, node, bridges)
	}
	again.follow(t, "## 4. Roll out the agent")
	again.fence(t, back, 1) // the right of new agents
	m.require(t)
}

var allNodes = []string{"node1", "node2", "node3"}

// The kinds of data planes. A node is of the kind that its pods use.
const (
	bridges  = "bridges"
	programs = "programs"
)

// The objects of the kinds on a node, as traces names them. Only this block names objects of the
// kernel and files. `V` is a VNI.
var (
	// kindOf finds the kind by one of its objects that pods use.
	kindOf = map[string]*regexp.Regexp{
		bridges:  regexp.MustCompile(`^link nw[0-9]+$`),
		programs: regexp.MustCompile(`^link a port$`),
	}
	// leftover matches the objects of a Network or a kind, which a drained node of the other kind
	// must not have.
	leftover = map[string]string{
		bridges:  `^(link (nw|vx|rt|wn)V|namespace pod2-V|table bridge pod2)$`,
		programs: `^(link ((rt|wn)V|pod2.*)|namespace pod2-V|filter .*|maps|plugin)$`,
	}
)

// move is the state of the test.
type move struct {
	ns     string
	vnis   []string          // of blue and six
	before map[string]string // the address of each replica
	kinds  map[string]string // of each node
	// back: the old controller runs. Nodes with programs do not learn where new pods are.
	back bool
}

// replace drains a node and replaces its agent, as the page says.
func (m *move) replace(t *testing.T, r reader, node, kind string) {
	t.Helper()
	commands := r.commands(t, "## From a version with bridges", 2, node)
	last := len(commands) - 1 // uncordon
	r.run(t, commands[:last]...)
	other := map[string]string{bridges: programs, programs: bridges}[kind]
	pattern := regexp.MustCompile(strings.ReplaceAll(leftover[other], "V", "("+strings.Join(m.vnis, "|")+")"))
	if left := slices.DeleteFunc(m.traces(t, node), func(s string) bool { return !pattern.MatchString(s) }); len(left) > 0 {
		t.Fatalf("%s is drained and has the agent for %s, and still has %s", node, kind, strings.Join(left, ", "))
	}
	r.run(t, commands[last])
	m.kinds[node] = kind
	m.waitPods(t)
	m.require(t)
}

// withoutDrain replaces the agent of a node whose pods are of the other kind. The new one waits, and
// says why; pods keep everything.
func (m *move) withoutDrain(t *testing.T, node, why string) {
	t.Helper()
	before := m.traces(t, node)
	run(t, "pod2-agent", "delete", "pod", "--field-selector=spec.nodeName="+node)
	eventually(t, "the agent of "+node+" says "+why, func() (string, error) {
		name, err := kubectl("", "--namespace=pod2-agent", "get", "pods", "--field-selector=spec.nodeName="+node, "--output=name")
		if err != nil || name == "" {
			return "it does not exist", err
		}
		logs, err := kubectl("", "--namespace=pod2-agent", "logs", name, "--all-containers", "--prefix")
		if !strings.Contains(logs, why) {
			return logs, err
		}
		return "", nil // another container may not have begun, and then has no log
	})
	m.require(t)
	after := m.traces(t, node)
	for _, is := range before {
		if !slices.Contains(after, is) {
			t.Errorf("the new agent of %s removed %s, which pods use", node, is)
		}
	}
	ready := run(t, "pod2-agent", "get", "pod", "--field-selector=spec.nodeName="+node, `--output=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
	if ready != "False" {
		t.Errorf("the agent of %s has the condition Ready=%s while pods of the other kind run there", node, ready)
	}
}

// requireNewPodWaits deletes the node's pod of the DaemonSet. The next one must not start.
func (m *move) requireNewPodWaits(t *testing.T, node, why string) {
	t.Helper()
	run(t, m.ns, "delete", "pod", "--selector=app=daemon", "--field-selector=spec.nodeName="+node)
	run(t, m.ns, "wait", "--for=create", "--timeout="+patience.String(), "pod", "--selector=app=daemon", "--field-selector=spec.nodeName="+node)
	name := run(t, m.ns, "get", "pod", "--selector=app=daemon", "--field-selector=spec.nodeName="+node, "--output=jsonpath={.items[0].metadata.name}")
	waitUnattached(t, m.ns, name, why)
}

func (m *move) traces(t *testing.T, node string) []string {
	t.Helper()
	return strings.Split(traces(t, node), ", ")
}

// require all that must hold after each step.
func (m *move) require(t *testing.T) {
	t.Helper()
	m.requireKinds(t)
	if is := m.replicas(t); fmt.Sprint(is) != fmt.Sprint(m.before) {
		t.Fatalf("the addresses of replicas were\n%v\nand are\n%v", m.before, is)
	}
	m.requireTraffic(t)
}

func (m *move) requireKinds(t *testing.T) {
	t.Helper()
	is := map[string]string{}
	for _, node := range allNodes {
		for kind, object := range kindOf {
			if slices.ContainsFunc(m.traces(t, node), object.MatchString) {
				is[node] += kind
			}
		}
	}
	if fmt.Sprint(is) != fmt.Sprint(m.kinds) {
		t.Fatalf("pods use %v, want %v", is, m.kinds)
	}
}
