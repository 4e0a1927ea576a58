//go:build linux && kernel

package node

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
	"github.com/pod2/pod2/pkg/agent/kernel"
	"github.com/pod2/pod2/pkg/ipam"
)

// lab is a set of nodes, each a network namespace on one wire, and the objects that the
// API server would return.
//
//	node1 10.9.0.1/24 ---+--- node2 10.9.0.2/24
//	                     +--- world 10.9.0.100/24, which knows no Networks
type lab struct {
	testing.TB
	namespaces map[string]netns.NsHandle
	nodes      []*labNode
	state      dataplane.State
	addressed  []addressed
	pods       []dataplane.Pod
	mtu        int // of Networks
}

// addressed is a Node of the API server.
type addressed struct {
	name      string
	addresses []netip.Addr
}

// labNode has the rooms of an agent. A test makes the calls of the agent's loop and its watches.
type labNode struct {
	*lab
	name    string
	kernel  *kernel.Kernel
	node    *Node
	address netip.Addr
	dir     string // of namespaces, as /run/netns
	bpf     string
	woken   chan struct{}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in runs f in the namespace.
func in(ns netns.NsHandle, f func() error) error { return iface.Inside(ns, f) }

// newLab has the nodes node1, node2, ... and the world.
func newLab(t testing.TB, nodes int) *lab {
	t.Helper()
	return newLabOn(t, nodes, ipv4.wire)
}

// newLabOn has nodes with addresses of that prefix.
func newLabOn(t testing.TB, nodes int, wire netip.Prefix) *lab {
	t.Helper()
	l := &lab{TB: t, namespaces: map[string]netns.NsHandle{}, mtu: 1450,
		state: dataplane.State{UDPPort: 4789, VXLANReversePathFilter: true, Transit: netip.MustParsePrefix("100.64.0.0/16")}}
	if wire.Addr().Is6() {
		l.mtu = 1430
	}
	l.namespace("wire")
	l.in("wire", func() error {
		return addUp(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}})
	})
	for i := range nodes {
		n := &labNode{lab: l, name: fmt.Sprintf("node%d", i+1), address: ending(wire, byte(i+1)), woken: make(chan struct{}, 1000)}
		l.nodes = append(l.nodes, n)
		l.plugIn(n.name, netip.PrefixFrom(n.address, wire.Bits()))
		l.addressed = append(l.addressed, addressed{n.name, []netip.Addr{n.address}})
		n.dir, n.bpf = filepath.Join(t.TempDir(), "netns"), bpffs(t)
		must(t, os.Mkdir(n.dir, 0o755))
		n.kernel = kernel.New(n.dir)
		n.start()
		t.Cleanup(n.stop)
	}
	l.plugIn("world", netip.PrefixFrom(ending(wire, 100), wire.Bits()))
	return l
}

// start the rooms, as an agent does that starts.
func (n *labNode) start() {
	n.Helper()
	n.in(n.name, func() (err error) {
		n.node, err = New(Config{Name: n.name, Directory: n.bpf, UDPPort: n.state.UDPPort, Transit: n.state.Transit, AllowBypass: true, Changed: func() { n.woken <- struct{}{} }, Patience: 50 * time.Millisecond})
		return err
	})
}

func (n *labNode) stop() { n.node.Close() }

// cleanUp has the steps of `pod2-agent cleanup`.
func (n *labNode) cleanUp() {
	n.Helper()
	n.in(n.name, func() error {
		_, err := n.kernel.Remove(true)
		return errors.Join(err, CleanUp(n.bpf, n.Output()))
	})
}

// tracked is the conntrack table of the node.
func (n *labNode) tracked() string {
	n.Helper()
	var content []byte
	n.in(n.name, func() (err error) { content, err = os.ReadFile("/proc/thread-self/net/nf_conntrack"); return err })
	return string(content)
}

// bpffs is a BPF file system of the test's own.
func bpffs(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bpf")
	must(t, os.Mkdir(dir, 0o700))
	must(t, unix.Mount("bpf", dir, "bpf", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return filepath.Join(dir, "pod2")
}

// namespace that ends with the test.
func (l *lab) namespace(name string) {
	l.Helper()
	made := make(chan netns.NsHandle)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.New()
		if err != nil {
			ns = -1
		}
		made <- ns
	}()
	if l.namespaces[name] = <-made; l.namespaces[name] < 0 {
		l.Fatal("no network namespace: this test needs root")
	}
	l.Cleanup(func() { ns := l.namespaces[name]; _ = ns.Close() })
	l.in(name, func() error { return up("lo") })
}

func (l *lab) in(name string, f func() error) {
	l.Helper()
	if err := in(l.namespaces[name], f); err != nil {
		l.Fatalf("in %s: %v", name, err)
	}
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return netlink.LinkSetUp(link)
}

func addUp(link netlink.Link) error {
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("add %s: %w", link.Attrs().Name, err)
	}
	return up(link.Attrs().Name)
}

func addressOn(dev string, p netip.Prefix) error {
	link, err := netlink.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("%s: %w", dev, err)
	}
	return netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, Flags: unix.IFA_F_NODAD})
}

// plugIn makes a namespace with eth0 on the wire.
func (l *lab) plugIn(name string, ip netip.Prefix) {
	l.Helper()
	l.namespace(name)
	l.in("wire", func() error {
		br, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		return addUp(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "w-" + name, MTU: 1500, MasterIndex: br.Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(l.namespaces[name])})
	})
	l.in(name, func() error {
		if err := addressOn("eth0", ip); err != nil {
			return err
		}
		return up("eth0")
	})
}

func (l *lab) network(name string, vni int32, cidr string) dataplane.Network {
	n := dataplane.Network{Namespace: "default", Name: name, VNI: vni, CIDR: netip.MustParsePrefix(cidr), MTU: l.mtu, Egress: true}
	n.Gateway, _ = ipam.DefaultGateway(n.CIDR)
	l.state.Networks = append(l.state.Networks, n)
	return n
}

// step is the agent's sync. It returns the steps and the number of entries that differed.
func (n *labNode) step(full bool) (string, int) {
	n.Helper()
	want, err := dataplane.Want(n.cluster())
	if problems := n.node.Problems(); err != nil || len(problems) > 0 {
		n.Fatalf("problems: %v, %s", err, problems)
	}
	_, grown := n.node.State()
	var done, inPods dataplane.Plan
	changes := 0
	n.in(n.name, func() (err error) {
		if done, err = n.kernel.Apply(want); err != nil {
			return fmt.Errorf("after\n%s: %w", done, err)
		}
		if changes, _, err = n.node.Sync(full); err != nil {
			return err
		}
		var failed []error
		inPods, failed = n.kernel.AddPodRoutes(grown)
		return errors.Join(failed...)
	})
	return done.String() + inPods.String(), changes
}

// sync a node, and check that a second sync has nothing to do. It returns the steps done.
func (n *labNode) sync() string {
	n.Helper()
	n.tell()
	first, _ := n.step(true)
	if again, changes := n.step(true); again != "" || changes > 0 {
		n.Fatalf("%s, after\n%sstill has to\n%s%d entries", n.name, first, again, changes)
	}
	return first
}

func (l *lab) sync() {
	l.Helper()
	for _, n := range l.nodes {
		n.sync()
	}
}

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("needs root: FAIL")
		os.Exit(1)
	}
	// Most tests wait for packets that must not come.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
