//go:build linux && kernel

package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/ipam"
)

// lab is a node and a host that knows no Networks. Each is a network namespace on one wire.
//
//	node1 10.9.0.1/24, fd0a::1/64 ------ world 10.9.0.100/24, fd0a::64/64
//
// A redirection takes the place of the programs on ports: it connects one pod of each
// Network with the router.
type lab struct {
	testing.TB
	dir    string // of namespaces
	kernel *Kernel
	state  dataplane.State
	pods   []*pod
}

type pod struct {
	*lab
	name, port string
	network    dataplane.Network
	ip         netip.Addr
	mac        dataplane.MAC
}

// keeper of namespaces in a directory.
func keeper(dir string) *Kernel { return &Kernel{dir: dir} }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{TB: t, dir: t.TempDir(), state: dataplane.State{Node: "node1", UDPPort: 4789, VXLANReversePathFilter: true, Transit: ipv4.transit,
		Nodes: []dataplane.Node{{Name: "node1", Addresses: []netip.Addr{ipv4.node(1), ipv6.node(1)}}}}}
	l.namespace("node1")
	l.namespace("world")
	l.veth("world", "eth0", "node1", "eth0", dataplane.MAC{}, 1500)
	for name, last := range map[string]byte{"node1": 1, "world": 100} {
		l.in(name, func() {
			l.addressOn("eth0", netip.PrefixFrom(ipv4.node(last), ipv4.wire.Bits()))
			l.addressOn("eth0", netip.PrefixFrom(ipv6.node(last), ipv6.wire.Bits()))
		})
	}
	l.echo("world", "world")
	var err error
	l.kernel, err = NewAt(filepath.Join(l.dir, "node1"), filepath.Join(l.dir, "netns-node1"))
	must(t, err)
	must(t, os.Mkdir(l.kernel.dir, 0o755))
	t.Cleanup(func() {
		names, err := l.kernel.namespaces()
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			if err := l.kernel.delNamespace(name); err != nil {
				t.Error(err)
			}
		}
		_ = l.kernel.Close()
	})
	return l
}

// namespace that is removed after the test.
func (l *lab) namespace(name string) {
	l.Helper()
	must(l, keeper(l.dir).addNamespace(name))
	l.Cleanup(func() {
		if err := keeper(l.dir).delNamespace(name); err != nil {
			l.Error(err)
		}
	})
	l.in(name, func() { l.up("lo") })
}

// in runs f on a thread of the namespace; f must not end the test.
func (l *lab) in(name string, f func()) {
	l.Helper()
	must(l, keeper(l.dir).in(name, func() error { f(); return nil }))
}

func (l *lab) up(name string) {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		l.Errorf("set %s up: %v", name, err)
	}
}

// veth between two namespaces, both ends up. The second one gets the MAC address.
func (l *lab) veth(from, name, to, peer string, mac dataplane.MAC, mtu int) {
	l.Helper()
	ns, err := keeper(l.dir).open(to)
	must(l, err)
	defer ns.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu}, PeerName: peer, PeerNamespace: netlink.NsFd(ns), PeerMTU: uint32(mtu)}
	if (mac != dataplane.MAC{}) {
		veth.PeerHardwareAddr = mac[:]
	}
	l.in(from, func() {
		if err := netlink.LinkAdd(veth); err != nil {
			l.Errorf("make %s and %s: %v", name, peer, err)
		}
		l.up(name)
	})
	l.in(to, func() { l.up(peer) })
}

func (l *lab) addressOn(dev string, p netip.Prefix) {
	link, err := netlink.LinkByName(dev)
	if err == nil {
		err = netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, Flags: unix.IFA_F_NODAD})
	}
	if err != nil {
		l.Errorf("put %s on %s: %v", p, dev, err)
	}
}

func (l *lab) network(name string, vni int32, cidr string) dataplane.Network {
	n := dataplane.Network{Namespace: "default", Name: name, VNI: vni, CIDR: netip.MustParsePrefix(cidr), MTU: 1450, Egress: true}
	n.Gateway, _ = ipam.DefaultGateway(n.CIDR)
	l.state.Networks, l.state.Here = append(l.state.Networks, n), append(l.state.Here, vni)
	return n
}

// attach a pod of the node by an interface, as the CNI plugin makes it.
func (l *lab) attach(name string, network dataplane.Network, ip netip.Addr) *pod {
	l.Helper()
	p := l.bare(name, network, ip, cni.ID{ContainerID: name, Interface: "net1"}.HostInterface())
	var index int
	l.in("node1", func() { index = l.index(p.port) })
	l.state.Ports = append(l.state.Ports, dataplane.Port{Interface: uint32(index), VNI: network.VNI, Pod: "default/" + name, IP: ip, MAC: p.mac, Bits: network.CIDR.Bits(), Inner: "net1"})
	l.pods = append(l.pods, p)
	return p
}

// bare is a pod that the agent does not know.
func (l *lab) bare(name string, network dataplane.Network, ip netip.Addr, port string) *pod {
	l.Helper()
	p := &pod{lab: l, name: name, port: port, network: network, ip: ip}
	var err error
	p.mac, err = dataplane.ParseMAC(ipam.MAC(ip))
	must(l, err)
	l.namespace(name)
	l.veth("node1", port, name, "net1", p.mac, network.MTU)
	l.in(name, func() {
		l.addressOn("net1", netip.PrefixFrom(ip, network.CIDR.Bits()))
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.index("net1"), Gw: network.Gateway.AsSlice()}); err != nil {
			l.Errorf("default route of %s: %v", name, err)
		}
	})
	must(l, os.Symlink(filepath.Join(l.dir, name), filepath.Join(l.kernel.dir, name))) // the path on the node
	l.echo(name, name)
	return p
}

// connect the last pod of each Network with its router.
func (l *lab) connect() {
	l.Helper()
	l.in("node1", func() {
		for _, p := range l.pods {
			port, router := l.index(p.port), l.index(fmt.Sprintf("rt%d", p.network.VNI))
			l.redirect(port, router)
			l.redirect(router, port)
		}
	})
}

// redirect all packets that come from an interface.
func (l *lab) redirect(from, to int) {
	_ = netlink.QdiscDel(clsact(from)) // of an earlier call
	err := netlink.QdiscAdd(clsact(from))
	if err == nil {
		err = netlink.FilterAdd(&netlink.U32{FilterAttrs: netlink.FilterAttrs{LinkIndex: from, Parent: netlink.HANDLE_MIN_INGRESS, Priority: 1, Protocol: unix.ETH_P_ALL}, RedirIndex: to})
	}
	if err != nil {
		l.Errorf("redirect: %v", err)
	}
}

// close a port again.
func (l *lab) close(port string) {
	if err := netlink.QdiscDel(clsact(l.index(port))); err != nil {
		l.Error(err)
	}
}

func clsact(index int) netlink.Qdisc {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
}

func (l *lab) link(name string) netlink.Link {
	link, err := netlink.LinkByName(name)
	if err != nil {
		l.Errorf("%s: %v", name, err)
		return &netlink.Device{}
	}
	return link
}

func (l *lab) index(name string) int { return l.link(name).Attrs().Index }

// decide from the kernel's state.
func (l *lab) decide() (dataplane.Plan, dataplane.Report) {
	l.Helper()
	s := l.state
	var err error
	s.Host, err = l.kernel.Read()
	must(l, err)
	want, report, ok := dataplane.Want(s)
	if !ok || len(report.Problems) > 0 {
		l.Fatalf("problems: %s", report.Problems)
	}
	return dataplane.Diff(s.Host, want), report
}

// sync the node, and check that a second sync has nothing to do. It returns the steps done.
func (l *lab) sync() string {
	l.Helper()
	first, report := l.decide()
	if done, err := l.kernel.Perform(first); err != nil || len(done) != len(first) {
		l.Fatalf("%d of %d steps: %v\n%s", len(done), len(first), err, first)
	}
	inPods, failed := l.kernel.AddPodRoutes(report.PodRoutes)
	if len(failed) > 0 {
		l.Fatal(failed)
	}
	again, report := l.decide()
	more, _ := l.kernel.AddPodRoutes(report.PodRoutes)
	if len(again)+len(more) > 0 {
		l.Fatalf("after\n%s%sis still to do\n%s%s", first, inPods, again, more)
	}
	l.connect()
	return first.String() + inPods.String()
}

// twoNetworks of one CIDR, blue and green, each with a pod of the same address.
func (f family) twoNetworks(t testing.TB) (l *lab, blue, green *pod) {
	t.Helper()
	l = newLab(t)
	b, g := l.network("blue", 1001, f.cidr.String()), l.network("green", 1002, f.cidr.String())
	blue, green = l.attach("blue1", b, f.pod(2)), l.attach("green1", g, f.pod(2))
	l.sync()
	return l, blue, green
}

// names of the links that Read finds on the node.
func (l *lab) links() []string {
	l.Helper()
	host, err := l.kernel.Read()
	must(l, err)
	var names []string
	for _, link := range host[0].Links {
		names = append(names, link.Name)
	}
	return slices.Sorted(slices.Values(names))
}

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("needs root: FAIL")
		os.Exit(1)
	}
	os.Exit(m.Run())
}
