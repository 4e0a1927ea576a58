//go:build linux && kernel

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/pod2/pod2/pkg/agent/authorize"
	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/veth"
)

// attacher is an agent without a data plane: it authorizes and makes pairs of interfaces.
type attacher struct {
	pod     dataplane.Pod
	network dataplane.Network
	// node runs f in the network namespace of the node.
	node func(f func() error) error
}

func (h attacher) pair(a cni.Attachment) (veth.Pair, cni.Result, error) {
	p, err := authorize.Attachment(authorize.Input{Request: a, Node: "n1", Pod: &h.pod, Network: &h.network})
	return veth.Pair{Owner: veth.Owner{ID: a.ID, Network: a.Network, PodUID: a.Pod.UID}, MAC: p.MAC, MTU: p.MTU, Address: p.Address, Routes: p.Routes}, p.Result(a.ID), err
}

func (h attacher) Add(_ context.Context, a cni.Attachment, pod *os.File) (cni.Result, error) {
	pair, result, err := h.pair(a)
	if err != nil {
		return cni.Result{}, err
	}
	return result, h.node(func() error {
		port, err := veth.Add(pair, pod)
		if err != nil {
			return err
		}
		return veth.Up(port)
	})
}

func (h attacher) Check(_ context.Context, a cni.Attachment, pod *os.File) (cni.Result, error) {
	pair, result, err := h.pair(a)
	if err != nil {
		return cni.Result{}, err
	}
	return result, h.node(func() error { return veth.Check(pair, pod) })
}

func (h attacher) Del(_ context.Context, a cni.Attachment) error {
	return h.node(func() error { return veth.Del(a.ID) })
}

func (h attacher) Status(context.Context) error { return nil }

func (h attacher) GC(_ context.Context, network string, valid []cni.ID) error {
	return h.node(func() error {
		ports, err := veth.List()
		for _, p := range ports {
			if err == nil && p.Network == network && !slices.Contains(valid, p.ID) {
				err = veth.Del(p.ID)
			}
		}
		return err
	})
}

func (h attacher) List(context.Context) ([]cni.Attachment, error) { return nil, nil }

// The plugin, the protocol, the decision and the interfaces together, on a node and in a pod that
// are network namespaces.
func TestAttach(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("needs root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	pod, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer pod.Close()
	node, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	in := func(ns netns.NsHandle) func(func() error) error {
		return func(f func() error) error {
			ended := make(chan error)
			go func() {
				runtime.LockOSThread()
				if err := netns.Set(ns); err != nil {
					ended <- err
					return
				}
				ended <- f()
			}()
			return <-ended
		}
	}
	h := attacher{
		pod: dataplane.Pod{Namespace: "default", Name: "web-0", UID: "8f31", Node: "n1", Attachments: []dataplane.Attachment{
			{Network: "blue", IP: netip.MustParseAddr("192.168.0.2"), MAC: dataplane.MAC{0x0a, 0x58, 192, 168, 0, 2}, Bits: 16}}},
		network: dataplane.Network{Namespace: "default", Name: "blue", VNI: 1001, CIDR: netip.MustParsePrefix("192.168.0.0/15"), Gateway: netip.MustParseAddr("192.168.0.1"), MTU: 1450},
		node:    in(node),
	}
	socket := serve(t, h)
	sandbox := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), pod)
	env := []string{"CNI_NETNS=" + sandbox, "CNI_NETNS_OVERRIDE=0"}
	want := strings.ReplaceAll(added, "/proc/self/ns/net", sandbox)
	steps := func(steps ...[3]string) {
		t.Helper()
		for _, s := range steps {
			if got := call(t, s[0], socket, s[1], env...); got != s[2] {
				t.Errorf("%s: got  %s\nwant %s", s[0], got, s[2])
			}
		}
	}
	prev := fromRuntime + `,"prevResult":` + want
	steps([3]string{"ADD", fromRuntime, want}, [3]string{"ADD", fromRuntime, want}, [3]string{"CHECK", prev, ""},
		[3]string{"GC", `,"cni.dev/valid-attachments":[{"containerID":"5b0c","ifname":"net1"}]`, ""}, [3]string{"CHECK", prev, ""})
	if err := in(pod)(func() error {
		inner, err := netlink.LinkByName("net1")
		if err != nil {
			return err
		}
		routes, err := netlink.RouteList(inner, netlink.FAMILY_V4)
		if len(routes) != 2 {
			t.Errorf("the pod has routes %v", routes)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	steps([3]string{"ADD", strings.Replace(fromRuntime, "192.168.0.2", "192.168.0.3", 1), failed(100, "pod default/web-0 asks for the address 192.168.0.3/16 on Network blue, and was given 192.168.0.2/16: "+
		"it must ask for Network blue only in annotation samplecrd.k8s.io/networks, not in those of Multus; recreate the pod")},
		[3]string{"DEL", "", ""}, [3]string{"DEL", "", ""}, [3]string{"CHECK", prev, failed(999, "interface pod247a35d2cb39 of the node, for net1 of pod UID 8f31: Link not found")},
		[3]string{"ADD", fromRuntime, want}, [3]string{"GC", `,"name":"default.green","cni.dev/valid-attachments":[]`, ""}, [3]string{"CHECK", prev, ""},
		[3]string{"GC", `,"cni.dev/valid-attachments":[]`, ""})
	if _, err := netlink.LinkByName("pod247a35d2cb39"); err == nil {
		t.Error("an attachment that GC does not name exists")
	}
}

// While the agent is away, the interfaces show that pods use the plugin.
func TestUninstallWithoutAgent(t *testing.T) {
	dir := t.TempDir()
	if got := run(t, nil, "", "install", "--to", dir); got != "" {
		t.Fatal(got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := `set -e; mount -t sysfs sysfs /sys
ip link add pod247a35d2cb39 type veth peer name a; ip link set pod247a35d2cb39 alias "default.blue 8f31 net1 5b0c"
ip link add pod2ffffffffff0 type veth peer name b; ip link add pod2-other type veth peer name c
"$1" uninstall --from "$2" --socket "$3"`
	cmd := exec.Command("unshare", "--net", "--mount", "sh", "-c", script, "sh", self, dir, socketPath(t))
	cmd.Env = append(os.Environ(), "POD2_CNI_IS_THE_PLUGIN=1")
	out, err := cmd.CombinedOutput()
	if got, want := strings.TrimSpace(string(out)), "pod2-cni: pods of this node use the plugin: delete or move them first: interface pod247a35d2cb39 (default.blue 8f31 net1 5b0c), interface pod2ffffffffff0"; err == nil || got != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "pod2-cni")); err != nil {
		t.Error(err)
	}
}
