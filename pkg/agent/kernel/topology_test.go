//go:build linux && kernel

package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/network/multus"
)

// cluster is a set of nodes, each a network namespace on one wire, and the objects that the
// API server would return.
//
//	node1 10.9.0.1/24 ---+--- node2 10.9.0.2/24
//	                     +--- world 10.9.0.100/24, which knows no Networks
type cluster struct {
	testing.TB
	dir   string // of namespaces
	nodes []*node
	state dataplane.State
}

type node struct {
	*cluster
	name    string
	kernel  *Kernel
	ports   []dataplane.Port
	address netip.Addr
}

type pod struct {
	*cluster
	name    string
	network dataplane.Network
	ip      netip.Addr
	mac     dataplane.MAC
}

// keeper of namespaces in a directory.
func keeper(dir string) *Kernel { return &Kernel{dir: dir} }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newCluster has the nodes node1, node2, ... and the world.
func newCluster(t testing.TB, nodes int) *cluster {
	t.Helper()
	c := &cluster{TB: t, dir: t.TempDir(), state: dataplane.State{UDPPort: 4789, VXLANReversePathFilter: true, Transit: netip.MustParsePrefix("100.64.0.0/16")}}
	c.namespace("wire")
	c.in("wire", func() {
		must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
		c.up("br0")
	})
	for i := range nodes {
		n := &node{cluster: c, name: fmt.Sprintf("node%d", i+1), address: netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)})}
		c.plugIn(n.name, n.address)
		var err error
		n.kernel, err = NewAt(filepath.Join(c.dir, n.name), filepath.Join(c.dir, "netns-"+n.name))
		must(t, err)
		t.Cleanup(func() {
			names, err := n.kernel.namespaces()
			if err != nil {
				t.Error(err)
			}
			for _, name := range names {
				if err := n.kernel.delNamespace(name); err != nil {
					t.Error(err)
				}
			}
			_ = n.kernel.Close()
		})
		c.nodes = append(c.nodes, n)
		c.state.Nodes = append(c.state.Nodes, dataplane.Node{Name: n.name, Addresses: []netip.Addr{n.address}})
	}
	c.plugIn("world", netip.MustParseAddr("10.9.0.100"))
	return c
}

// namespace that is removed after the test.
func (c *cluster) namespace(name string) {
	c.Helper()
	must(c, keeper(c.dir).addNamespace(name))
	c.Cleanup(func() {
		if err := keeper(c.dir).delNamespace(name); err != nil {
			c.Error(err)
		}
	})
	c.in(name, func() { c.up("lo") })
}

// in runs f on a thread of the namespace; f must not end the test.
func (c *cluster) in(name string, f func()) {
	c.Helper()
	must(c, keeper(c.dir).in(name, func() error { f(); return nil }))
}

func (c *cluster) up(name string) {
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		c.Errorf("set %s up: %v", name, err)
	}
}

// plugIn makes a namespace with eth0 on the wire.
func (c *cluster) plugIn(name string, ip netip.Addr) {
	c.Helper()
	c.namespace(name)
	ns, err := keeper(c.dir).open(name)
	must(c, err)
	defer ns.Close()
	c.in("wire", func() {
		br, err := netlink.LinkByName("br0")
		if err != nil {
			c.Error(err)
			return
		}
		end := "w-" + name
		err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: end, MTU: 1500, MasterIndex: br.Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)})
		if err != nil {
			c.Errorf("plug in %s: %v", name, err)
			return
		}
		c.up(end)
	})
	c.in(name, func() { c.addressOn("eth0", netip.PrefixFrom(ip, 24)); c.up("eth0") })
}

func (c *cluster) addressOn(dev string, p netip.Prefix) {
	l, err := netlink.LinkByName(dev)
	if err == nil {
		err = netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, Flags: unix.IFA_F_NODAD})
	}
	if err != nil {
		c.Errorf("put %s on %s: %v", p, dev, err)
	}
}

func (c *cluster) network(name string, vni int32, cidr string) dataplane.Network {
	n := dataplane.Network{Namespace: "default", Name: name, VNI: vni, CIDR: netip.MustParsePrefix(cidr), MTU: 1450, Egress: true}
	n.Gateway, _ = ipam.DefaultGateway(n.CIDR)
	c.state.Networks = append(c.state.Networks, n)
	return n
}

// pod on a node, known to the API server. CNI has not connected its namespace yet.
func (n *node) pod(name string, network dataplane.Network, ip string) *pod {
	n.Helper()
	p := &pod{cluster: n.cluster, name: name, network: network, ip: netip.MustParseAddr(ip)}
	mac, err := dataplane.ParseMAC(ipam.MAC(p.ip))
	must(n, err)
	p.mac = mac
	n.namespace(name)
	n.state.Pods = append(n.state.Pods, dataplane.Pod{Namespace: "default", Name: name, UID: types.UID("u-" + name), Node: n.name,
		Attachments: []dataplane.Attachment{{Network: network.Name, IP: p.ip, MAC: p.mac, Bits: network.CIDR.Bits()}}})
	return p
}

// attach does the work of the plugin bridge, which makes a bridge if needed, and of libcni.
func (n *node) attach(p *pod) {
	n.Helper()
	n.plug(p)
	n.ports = append(n.ports, dataplane.Port{Interface: "veth" + p.name, Bridge: multus.Bridge(p.network.VNI), PodUID: types.UID("u-" + p.name),
		Sandbox: "/run/netns/" + p.name, Inner: "net1"})
	dir := filepath.Join(n.dir, "netns-"+n.name) // the path on the node
	must(n, os.MkdirAll(dir, 0o755))
	must(n, os.Symlink(filepath.Join(n.dir, p.name), filepath.Join(dir, p.name)))
}

func (n *node) plug(p *pod) {
	n.Helper()
	ns, err := keeper(n.dir).open(p.name)
	must(n, err)
	defer ns.Close()
	n.in(n.name, func() {
		bridge := multus.Bridge(p.network.VNI)
		_ = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge, MTU: p.network.MTU}})
		n.up(bridge)
		br, err := netlink.LinkByName(bridge)
		if err == nil {
			err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth" + p.name, MTU: p.network.MTU, MasterIndex: br.Attrs().Index},
				PeerName: "net1", PeerHardwareAddr: p.mac[:], PeerNamespace: netlink.NsFd(ns)})
		}
		if err != nil {
			n.Errorf("attach %s: %v", p.name, err)
		}
		n.up("veth" + p.name)
	})
	n.in(p.name, func() {
		l, err := netlink.LinkByName("net1")
		if err != nil {
			n.Error(err)
			return
		}
		if err := netlink.LinkSetMTU(l, p.network.MTU); err != nil {
			n.Error(err)
		}
		n.addressOn("net1", netip.PrefixFrom(p.ip, p.network.CIDR.Bits()))
		n.up("net1")
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: p.network.Gateway.AsSlice()}); err != nil {
			n.Errorf("default route of %s: %v", p.name, err)
		}
	})
	n.echo(p.name, p.name)
}

// decide for this node from its kernel's state.
func (n *node) decide(k *Kernel) dataplane.Plan {
	n.Helper()
	plan, _ := n.decideAll(k)
	return plan
}

func (n *node) decideAll(k *Kernel) (dataplane.Plan, []dataplane.PodRoute) {
	n.Helper()
	s := n.state
	s.Node, s.Ports = n.name, n.ports
	var err error
	s.Host, err = k.Read()
	must(n, err)
	want, report, ok := dataplane.Want(s)
	if !ok || len(report.Problems) > 0 {
		n.Fatalf("problems: %s", report.Problems)
	}
	return dataplane.Diff(s.Host, want), report.PodRoutes
}

// sync a node, and check that a second sync has nothing to do. It returns the steps done.
func (n *node) sync() string {
	n.Helper()
	first, routes := n.decideAll(n.kernel)
	if done, err := n.kernel.Perform(first); err != nil || len(done) != len(first) {
		n.Fatalf("%d of %d steps of %s: %v\n%s", len(done), len(first), n.name, err, first)
	}
	inPods, failed := n.kernel.AddPodRoutes(routes)
	if len(failed) > 0 {
		n.Fatalf("%s: %v", n.name, failed)
	}
	again, routes := n.decideAll(n.kernel)
	more, _ := n.kernel.AddPodRoutes(routes)
	if len(again)+len(more) > 0 {
		n.Fatalf("%s, after\n%s%sstill has to\n%s%s", n.name, first, inPods, again, more)
	}
	return first.String() + inPods.String()
}

func (c *cluster) sync() {
	c.Helper()
	for _, n := range c.nodes {
		n.sync()
	}
}

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("needs root: FAIL")
		os.Exit(1)
	}
	os.Exit(m.Run())
}
