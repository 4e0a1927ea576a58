//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// An administrator removes the agent as docs/how-to/uninstall.md says, while a Network has pods. The
// data plane stays. The clean-up DaemonSet, with the agent's image, then removes all of it from
// every node.
func TestUninstallLeavesNothing(t *testing.T) {
	agent, cleanup := filepath.Join(root, "artifacts/agent/daemonset.yaml"), released("cleanup-dataplane.yaml")
	ns := newNamespace(t, "uninstall")
	t.Cleanup(func() { // for later tests
		run(t, "", "apply", "-f", released("install-dataplane.yaml"))
		run(t, "pod2-agent", "rollout", "status", "daemonset/pod2-agent", "--timeout="+patience.String())
	})
	create(t, ns, networks+alone("one", "node1", "blue@eth0")+alone("two", "node2", "blue@eth0"))
	waitRunning(t, ns, "one", "two")
	ours := strings.Split("link a port, link pod2gw, link pod2gwp, maps, plugin, program from_port of a port, program from_wire of eth0, route to 100.64.0.0/16, table inet pod2", ", ")
	before := map[string]string{}
	for _, node := range []string{"node1", "node2"} {
		eventually(t, node+" has all of the Network", func() (string, error) {
			before[node] = traces(t, node)
			return except(ours, before[node]), nil
		})
	}

	run(t, "", "delete", "-f", agent, "--timeout="+patience.String())
	for _, node := range []string{"node1", "node2"} {
		if got, want := traces(t, node), before[node]; got != want {
			t.Errorf("%s without an agent has %s, want %s", node, got, want)
		}
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

// except returns "" if got has all that is wanted.
func except(want []string, got string) string {
	for _, w := range want {
		if !slices.Contains(strings.Split(got, ", "), w) {
			return "it lacks " + w + " and has " + got
		}
	}
	return ""
}

// agentsLink matches the names of links in docs/contributing/data-plane.md, and those of earlier versions. agentsPort matches the interfaces of pods on the node.
var (
	agentsLink = regexp.MustCompile(`^((nw|vx|rt|wn)[0-9]+|pod2.*)$`)
	agentsPort = regexp.MustCompile(`^pod2[0-9a-f]{11}$`)
)

// traces finds the agent's things on a node without the agent's own code: links with its names,
// eBPF programs on all links, pinned maps, the plugin, mounted namespaces, all nftables, because
// no other program makes tables on these nodes, and routes to transit addresses.
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
		name := agentsPort.ReplaceAllString(link.Attrs().Name, "a port")
		if agentsLink.MatchString(link.Attrs().Name) {
			found = append(found, "link "+name)
		}
		for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
			filters, err := h.FilterList(link, parent)
			if err != nil {
				t.Fatalf("filters of %s on %s: %v", name, node, err)
			}
			for _, filter := range filters {
				if program, ok := filter.(*netlink.BpfFilter); ok {
					found = append(found, "program "+program.Name+" of "+name)
				}
			}
		}
	}
	byTCX, err := tcxPrograms(ns)
	if err != nil {
		t.Fatalf("tcx programs of %s: %v", node, err)
	}
	found = append(found, byTCX...)
	for what, path := range map[string]string{"maps": "sys/fs/bpf/pod2/*", "plugin": "opt/cni/bin/pod2-cni"} {
		if files, err := filepath.Glob(filepath.Join(process, "root", path)); err != nil || len(files) > 0 {
			found = append(found, what)
		}
	}
	names, err := filepath.Glob(filepath.Join(process, "root/run/netns/pod2-*")) // routers of earlier versions
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
	routes, err := h.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatalf("routes of %s: %v", node, err)
	}
	for _, route := range routes {
		if route.Dst != nil && route.Dst.String() == "100.64.0.0/16" {
			found = append(found, "route to "+route.Dst.String())
		}
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

// tcxPrograms of all links in a network namespace, where the kernel has tcx.
func tcxPrograms(ns netns.NsHandle) (found []string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends here
		if err = netns.Set(ns); err != nil {
			return
		}
		var links []netlink.Link
		if links, err = netlink.LinkList(); err != nil {
			return
		}
		for _, l := range links {
			for _, direction := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				all, queryErr := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: direction})
				if errors.Is(queryErr, unix.EINVAL) {
					return // a kernel before 6.6
				}
				if err = queryErr; err != nil {
					return
				}
				for _, one := range all.Programs {
					var program *ebpf.Program
					var info *ebpf.ProgramInfo
					if program, err = ebpf.NewProgramFromID(one.ID); err != nil {
						return
					}
					if info, err = program.Info(); err != nil {
						return
					}
					found = append(found, "program "+info.Name+" of "+l.Attrs().Name)
					_ = program.Close()
				}
			}
		}
	}()
	<-done
	return found, err
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
