//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// An administrator removes the agent as docs/how-to/uninstall.md says, while a Network has pods. The
// data plane stays. The clean-up DaemonSet, with the agent's image, then removes all of it from
// every node.
func TestUninstallLeavesNothing(t *testing.T) {
	agent, cleanup := filepath.Join(root, "artifacts/agent/daemonset.yaml"), filepath.Join(root, "artifacts/agent/cleanup/daemonset.yaml")
	ns := newNamespace(t, "uninstall")
	t.Cleanup(func() { // for later tests
		run(t, "", "apply", "-f", agent)
		run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
	})
	create(t, ns, networks+alone("one", "node1", "blue@eth0")+alone("two", "node2", "blue@eth0"))
	waitRunning(t, ns, "one", "two")
	vni := run(t, ns, "get", "network", "blue", "--output=jsonpath={.status.vni}")
	ours := strings.NewReplacer("V", vni).Replace("link nwV, link rtV, link vxV, link wnV, namespace pod2-V, table bridge pod2, table inet pod2")
	for _, node := range []string{"node1", "node2"} {
		eventually(t, node+" has all of the Network", func() (string, error) { return except(ours, traces(t, node)), nil })
	}

	run(t, "", "delete", "-f", agent, "--timeout="+patience.String())
	for _, node := range []string{"node1", "node2"} {
		if got := traces(t, node); got != ours {
			t.Errorf("%s without an agent has %s, want %s", node, got, ours)
		}
	}
	for _, node := range []string{"node1", "node2", "node3"} {
		waitNoDataPlane(t, node)
	}
	run(t, ns, "delete", "pods", "--all", "--timeout="+patience.String())
	run(t, "", "apply", "-f", cleanup)
	run(t, "pod2-agent-cleanup", "rollout", "status", "daemonset/pod2-agent-cleanup", "--timeout="+patience.String())
	for _, node := range []string{"node1", "node2", "node3"} {
		if got := traces(t, node); got != "" {
			t.Errorf("%s after the clean-up has %s", node, got)
		}
	}
	t.Logf("its log:\n%s", run(t, "pod2-agent-cleanup", "logs", "--selector=app.kubernetes.io/name=pod2-agent-cleanup", "--container=cleanup", "--prefix", "--tail=-1"))
	run(t, "", "delete", "-f", cleanup, "--timeout="+patience.String())
}

// except returns "" if got is as wanted.
func except(want, got string) string {
	if got == want {
		return ""
	}
	return "it has " + got
}

// agentsLink matches the names of links in docs/contributing/data-plane.md. It does not match
// rt-plain, which belongs to another test.
var agentsLink = regexp.MustCompile(`^(nw|vx|rt|wn)[0-9]+$`)

// traces finds the agent's things on a node without the agent's own code: links with its names,
// mounted namespaces, all nftables, because no other program makes tables on these nodes, and
// routing rules other than the kernel's own.
func traces(t *testing.T, node string) string {
	t.Helper()
	process := firstProcess(t, node)
	ns, err := netns.GetFromPath(filepath.Join(process, "ns/net"))
	if err != nil {
		t.Fatalf("open the network namespace of %s: %v", node, err)
	}
	defer ns.Close()
	var found []string
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatalf("netlink of %s: %v", node, err)
	}
	defer h.Close()
	links, err := h.LinkList()
	if err != nil {
		t.Fatalf("links of %s: %v", node, err)
	}
	for _, link := range links {
		if name := link.Attrs().Name; agentsLink.MatchString(name) {
			found = append(found, "link "+name)
		}
	}
	names, err := filepath.Glob(filepath.Join(process, "root/run/netns/pod2-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		found = append(found, "namespace "+filepath.Base(name))
	}
	c, err := nftables.New(nftables.WithNetNSFd(int(ns)))
	if err != nil {
		t.Fatalf("nftables of %s: %v", node, err)
	}
	tables, err := c.ListTables()
	if err != nil {
		t.Fatalf("tables of %s: %v", node, err)
	}
	families := map[nftables.TableFamily]string{nftables.TableFamilyINet: "inet", nftables.TableFamilyBridge: "bridge"}
	for _, table := range tables {
		family, known := families[table.Family]
		if !known {
			family = fmt.Sprint(table.Family)
		}
		found = append(found, "table "+family+" "+table.Name)
	}
	rules, err := h.RuleList(netlink.FAMILY_ALL)
	if err != nil {
		t.Fatalf("rules of %s: %v", node, err)
	}
	for _, rule := range rules {
		if rule.Src != nil || rule.Dst != nil || rule.IifName != "" || rule.OifName != "" || rule.Mark != 0 {
			found = append(found, "rule "+rule.String())
		}
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

// firstProcess is the directory in /proc of a node's first process. test/e2e/e2e.sh starts it by
// a path that identifies the node, and its id is 1 in its PID namespace.
func firstProcess(t *testing.T, node string) string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range all {
		line, _ := os.ReadFile(filepath.Join(process, "cmdline")) // it may have ended meanwhile
		status, _ := os.ReadFile(filepath.Join(process, "status"))
		_, ids, _ := strings.Cut(string(status), "\nNSpid:")
		ids, _, _ = strings.Cut(ids, "\n")
		if args := strings.Split(string(line), "\x00"); len(args) > 1 && args[1] == filepath.Join(os.Getenv("E2E_DIR"), "e2e", node, "init") && strings.HasSuffix(ids, "\t1") {
			return process
		}
	}
	t.Fatalf("%s is not running", node)
	return ""
}
