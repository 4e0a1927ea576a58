//go:build linux && kernel

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/pod2/pod2/pkg/agent/authorize"
	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
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
	return veth.Pair{Owner: veth.Owner{ID: a.ID, Network: a.Network, PodUID: a.Pod.UID, PodName: a.Pod.Name}, MAC: p.MAC, MTU: p.MTU, Address: p.Address, Routes: p.Routes}, p.Result(a.ID), err
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
	return h.node(func() error { return veth.Del(a.HostInterface()) })
}

func (h attacher) Status(context.Context) error { return nil }

func (h attacher) GC(_ context.Context, network string, valid []cni.ID) error {
	return h.node(func() error {
		ports, err := veth.List()
		for _, p := range ports {
			if err == nil && p.Network == network && !slices.Contains(valid, p.ID) {
				err = veth.Del(p.HostInterface())
			}
		}
		return err
	})
}

// in runs f on a thread that is in the namespace.
func in(ns netns.NsHandle) func(func() error) error {
	return func(f func() error) error { return iface.Inside(ns, f) }
}

// newNode is an agent on a node, and a pod, both network namespaces. The test's thread is in that
// of the node afterwards.
func newNode(t *testing.T) (h attacher, pod netns.NsHandle) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("needs root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	made := func() netns.NsHandle {
		ns, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ns.Close() })
		return ns
	}
	pod = made()
	return attacher{
		pod: dataplane.Pod{Namespace: "default", Name: "web-0", UID: "8f31", Node: "n1", Attachments: []dataplane.Attachment{
			{Network: "blue", IP: netip.MustParseAddr("192.168.0.2"), MAC: dataplane.MAC{0x0a, 0x58, 192, 168, 0, 2}, Bits: 16}}},
		network: dataplane.Network{Namespace: "default", Name: "blue", VNI: 1001, CIDR: netip.MustParsePrefix("192.168.0.0/15"), Gateway: netip.MustParseAddr("192.168.0.1"), MTU: 1450},
		node:    in(made()),
	}, pod
}

// path of a namespace for other processes.
func path(ns netns.NsHandle) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns) }

// The plugin, the protocol, the decision and the interfaces together.
func TestAttach(t *testing.T) {
	h, pod := newNode(t)
	socket := serve(t, h)
	sandbox := path(pod)
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

// The library that container runtimes use calls the installed plugin.
func TestLibcni(t *testing.T) {
	h, pod := newNode(t)
	socket, dir := serve(t, h), t.TempDir()
	if got := run(t, nil, "", "install", "--to", dir); got != "" {
		t.Fatal(got)
	}
	t.Setenv("POD2_CNI_IS_THE_PLUGIN", "1")
	list, err := libcni.ConfListFromBytes([]byte(`{"cniVersion":"1.1.0","name":"default.blue","plugins":[{"type":"pod2-cni","capabilities":{"ips":true,"mac":true},"socket":"` + socket + `"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	c := libcni.NewCNIConfigWithCacheDir([]string{dir}, t.TempDir(), nil)
	attachment := &libcni.RuntimeConf{ContainerID: "5b0c", NetNS: path(pod), IfName: "net1",
		Args:           [][2]string{{"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", "web-0"}, {"K8S_POD_UID", "8f31"}},
		CapabilityArgs: map[string]any{"ips": []string{"192.168.0.2/16"}, "mac": "0a:58:c0:a8:00:02"}}
	exists := func(want bool) error {
		if _, err := netlink.LinkByName("pod247a35d2cb39"); (err == nil) != want {
			return fmt.Errorf("the interface exists: %v", !want)
		}
		return nil
	}
	gc := func(valid ...types.GCAttachment) error {
		return errors.Join(c.GCNetworkList(t.Context(), list, &libcni.GCArgs{ValidAttachments: valid}))
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"STATUS", func() error { return c.GetStatusNetworkList(t.Context(), list) }},
		{"ADD", func() error {
			r, err := c.AddNetworkList(t.Context(), list, attachment)
			if err != nil {
				return err
			}
			text, err := json.Marshal(r)
			if want := strings.ReplaceAll(strings.ReplaceAll(added, "/proc/self/ns/net", path(pod)), " ", ""); string(text) != want {
				t.Errorf("got  %s\nwant %s", text, want)
			}
			return err
		}},
		{"CHECK", func() error { return c.CheckNetworkList(t.Context(), list, attachment) }},
		{"GC of others", func() error {
			return errors.Join(gc(types.GCAttachment{ContainerID: "5b0c", IfName: "net1"}), exists(true))
		}},
		{"DEL", func() error { return errors.Join(c.DelNetworkList(t.Context(), list, attachment), exists(false)) }},
		{"DEL again", func() error { return c.DelNetworkList(t.Context(), list, attachment) }},
		{"ADD again", func() error {
			_, err := c.AddNetworkList(t.Context(), list, attachment)
			return errors.Join(err, exists(true))
		}},
		{"GC of all", func() error { return errors.Join(gc(), exists(false)) }},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

// The interfaces show that pods use the plugin. The agent may be away.
func TestUninstallWhilePodsRun(t *testing.T) {
	dir := t.TempDir()
	if got := run(t, nil, "", "install", "--to", dir); got != "" {
		t.Fatal(got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	uninstall := func(aliases map[string]string) string {
		newNode(t)
		for _, name := range slices.Sorted(maps.Keys(aliases)) {
			link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: strings.TrimPrefix(name, "pod")}
			if err := errors.Join(netlink.LinkAdd(link), netlink.LinkSetAlias(link, aliases[name])); err != nil {
				t.Fatal(err)
			}
		}
		// The plugin finds the interfaces in /sys.
		cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t sysfs sysfs /sys; "$1" uninstall --from "$2"`, "sh", self, dir)
		cmd.Env = append(os.Environ(), "POD2_CNI_IS_THE_PLUGIN=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		return string(out)
	}
	const refusal = "pod2-cni: pods of this node use the plugin: delete or move them first: "
	many := map[string]string{}
	for _, digit := range "0123456789a" {
		many["pod2000000000f"+string(digit)] = ""
	}
	for _, tt := range []struct {
		aliases map[string]string
		want    string
	}{
		{map[string]string{"pod247a35d2cb39": "default.blue 8f31 net1 5b0c web-0", "pod2ffffffffff0": "", "pod2-other": "", "pod2gw": ""},
			refusal + "interface pod247a35d2cb39 (default.blue 8f31 net1 5b0c web-0), interface pod2ffffffffff0\nexit status 1"},
		{many, refusal + "interface pod2000000000f" + strings.Join(strings.Split("0123456789", ""), ", interface pod2000000000f") + ", and more\nexit status 1"},
	} {
		if got := uninstall(tt.aliases); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
		if got := files(t, dir); got != "-rwxr-xr-x pod2-cni" {
			t.Errorf("got\n%s", got)
		}
	}
	if got := uninstall(map[string]string{"pod2-other": ""}); got != "" || files(t, dir) != "" {
		t.Errorf("without pods: got %s\n%s", got, files(t, dir))
	}
}
