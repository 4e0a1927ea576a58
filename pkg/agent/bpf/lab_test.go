//go:build linux && kernel

package bpf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/pkg/ipam"
)

// A lab has two nodes, each a network namespace with its own maps, on one wire.
//
//	pod a, b -- node1 10.9.0.1 fd09::1 ==== node2 10.9.0.2 fd09::2 -- pod c
type lab struct {
	testing.TB
	nodes []*node
	pods  []*pod
	// overIPv6: nodes reach each other by IPv6 alone.
	overIPv6 bool
}

type node struct {
	*lab
	name    string
	ns      netns.NsHandle
	p       *Programs
	ip, ip6 netip.Addr
	eth     uint32
	vxlan   uint32
}

type pod struct {
	*node
	name string
	ns   netns.NsHandle
	net  testNetwork
	ip   netip.Addr
	mac  dataplane.MAC
	port uint32 // index of the host's end of the veth
}

type testNetwork struct {
	vni     int32
	cidr    netip.Prefix
	gateway netip.Addr
}

var (
	blue  = testNetwork{70001, netip.MustParsePrefix("192.168.0.0/16"), netip.MustParseAddr("192.168.0.1")}
	green = testNetwork{70002, netip.MustParsePrefix("192.168.0.0/16"), netip.MustParseAddr("192.168.0.1")} // the same CIDR
	blue6 = testNetwork{70006, netip.MustParsePrefix("fd12::/64"), netip.MustParseAddr("fd12::1")}
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in runs f in the namespace.
func in(ns netns.NsHandle, f func() error) error { return iface.Inside(ns, f) }

func newNamespace(t testing.TB) netns.NsHandle {
	t.Helper()
	made := make(chan netns.NsHandle)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.New()
		if err != nil {
			ns = -1
		}
		made <- ns
	}()
	ns := <-made
	if ns < 0 {
		t.Fatal("no network namespace: this test needs root")
	}
	t.Cleanup(func() { _ = ns.Close() })
	must(t, in(ns, func() error { return up("lo") }))
	return ns
}

func up(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return netlink.LinkSetUp(l)
}

func indexOf(name string) (uint32, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return uint32(l.Attrs().Index), nil
}

func addAddress(dev string, p netip.Prefix) error {
	l, err := netlink.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("%s: %w", dev, err)
	}
	return netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, Flags: unix.IFA_F_NODAD})
}

// bpffs is a BPF file system of the test's own.
func bpffs(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bpf")
	must(t, os.Mkdir(dir, 0o700))
	must(t, unix.Mount("bpf", dir, "bpf", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// newLab has two nodes that have no Network yet.
func newLab(t testing.TB, overIPv6 bool) *lab {
	t.Helper()
	l := &lab{TB: t, overIPv6: overIPv6}
	for i := range 2 {
		b := byte(i + 1)
		n := &node{lab: l, name: fmt.Sprintf("node%d", b), ns: newNamespace(t), ip: netip.AddrFrom4([4]byte{10, 9, 0, b}),
			ip6: netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x09, 15: b})}
		l.nodes = append(l.nodes, n)
	}
	must(t, in(l.nodes[0].ns, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: 1500}, PeerName: "eth0", PeerNamespace: netlink.NsFd(l.nodes[1].ns)})
	}))
	for _, n := range l.nodes {
		var err error
		n.p, err = Load(bpffs(t))
		must(t, err)
		t.Cleanup(n.p.Close)
		must(t, in(n.ns, func() error { return n.setUp() }))
	}
	return l
}

func (n *node) setUp() (err error) {
	for _, a := range []netip.Prefix{netip.PrefixFrom(n.ip, 24), netip.PrefixFrom(n.ip6, 64)} {
		if err := addAddress("eth0", a); err != nil {
			return err
		}
	}
	if err := up("eth0"); err != nil {
		return err
	}
	if n.eth, err = indexOf("eth0"); err != nil {
		return err
	}
	index, err := MakeVXLAN("pod2vxlan", 4789)
	if err != nil {
		return err
	}
	n.vxlan = uint32(index)
	c := tables.Config{Local: n.ip, VXLAN: n.vxlan, UDPPort: 4789}
	if n.overIPv6 {
		c.Local = n.ip6
	}
	if err := n.p.SetConfig(c); err != nil {
		return err
	}
	for _, other := range n.nodes {
		if err := setNode(n.p, other.address(), tables.Wire{Interface: n.eth, Direct: 1}); err != nil {
			return err
		}
	}
	if err := errors.Join(n.p.AttachVXLAN(index), n.p.AttachLoopback()); err != nil {
		return err
	}
	return n.p.AttachWire(int(n.eth))
}

func setPort(p *Programs, index tables.PortKey, port tables.Port) error {
	return p.Write(tables.Change{Key: tables.Key{Map: tables.PortMap, Port: index}, Value: port})
}

func setPlace(p *Programs, key tables.PlaceKey, place tables.Place) error {
	return p.Write(tables.Change{Key: tables.Key{Map: tables.PlaceMap, Place: key}, Value: place})
}

func setNetwork(p *Programs, n dataplane.Network) error {
	return p.Write(tables.Change{Key: tables.Key{Map: tables.NetworkMap, VNI: n.VNI}, Value: tables.NetworkOf(&n)})
}

func setNode(p *Programs, address netip.Addr, wire tables.Wire) error {
	return p.Write(tables.Change{Key: tables.Key{Map: tables.NodeMap, Address: address}, Value: wire})
}

func setTransit(p *Programs, address netip.Addr, index tables.PortKey) error {
	return p.Write(tables.Change{Key: tables.Key{Map: tables.TransitMap, Address: address}, Value: index})
}

func (n *node) address() netip.Addr {
	if n.overIPv6 {
		return n.ip6
	}
	return n.ip
}

// mtu of Networks: VXLAN adds 50 bytes over IPv4, and 70 over IPv6.
func (l *lab) mtu() int {
	if l.overIPv6 {
		return 1430
	}
	return 1450
}

// pod on a node, which all nodes know.
func (n *node) pod(name string, network testNetwork, ip string) *pod {
	n.Helper()
	p := &pod{node: n, name: name, net: network, ip: netip.MustParseAddr(ip), ns: newNamespace(n.TB)}
	var err error
	p.mac, err = dataplane.ParseMAC(ipam.MAC(p.ip))
	must(n, err)
	must(n, in(n.ns, func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth" + name, MTU: n.mtu()}, PeerName: "net1", PeerHardwareAddr: p.mac[:], PeerMTU: uint32(n.mtu()), PeerNamespace: netlink.NsFd(p.ns)}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		if p.port, err = indexOf(veth.Name); err != nil {
			return err
		}
		if err := n.p.AttachPort(int(p.port)); err != nil {
			return err
		}
		if err := netlink.LinkSetIP6AddrGenMode(veth, 1 /* none */); err != nil {
			return err
		}
		return up(veth.Name)
	}))
	must(n, in(p.ns, func() error {
		if err := addAddress("net1", netip.PrefixFrom(p.ip, network.cidr.Bits())); err != nil {
			return err
		}
		return up("net1")
	}))
	must(n, setPort(n.p, p.port, tables.Port{VNI: network.vni, MAC: p.mac, IP: tables.AddressOf(p.ip)}))
	for _, other := range n.nodes {
		must(n, setNetwork(other.p, dataplane.Network{VNI: network.vni, CIDR: network.cidr, Gateway: network.gateway, MTU: n.mtu()}))
		place := tables.Place{IP: tables.AddressOf(p.ip), Node: tables.AddressOf(n.address())}
		if other == n {
			place.Node, place.Interface = tables.Address{}, p.port
		}
		must(n, setPlace(other.p, tables.PlaceKey{VNI: network.vni, MAC: p.mac}, place))
	}
	n.pods = append(n.pods, p)
	return p
}

// drops of a node, by reason, such as "mac 2, ip 1".
func (n *node) drops() string {
	n.Helper()
	all, err := n.p.Drops()
	must(n, err)
	sum := map[string]uint64{}
	for d, count := range all {
		sum[d.Reason] += count
	}
	var list []string
	for _, reason := range Reasons[1:] {
		if sum[reason] > 0 {
			list = append(list, fmt.Sprintf("%s %d", reason, sum[reason]))
		}
	}
	return strings.Join(list, ", ")
}

// dropped returns the drops of a node for one reason.
func (n *node) dropped(reason string) (count uint64) {
	n.Helper()
	all, err := n.p.Drops()
	must(n, err)
	for d, c := range all {
		if d.Reason == reason {
			count += c
		}
	}
	return count
}

// received counts the packets of the VXLAN device.
func (n *node) received() (packets uint64) {
	n.Helper()
	must(n, in(n.ns, func() error {
		l, err := netlink.LinkByIndex(int(n.vxlan))
		if err == nil {
			packets = l.Attrs().Statistics.RxPackets
		}
		return err
	}))
	return packets
}

// mac of eth0.
func (n *node) mac() (mac dataplane.MAC) {
	n.Helper()
	must(n, in(n.ns, func() error {
		l, err := netlink.LinkByIndex(int(n.eth))
		if err == nil {
			copy(mac[:], l.Attrs().HardwareAddr)
		}
		return err
	}))
	return mac
}

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("needs root: FAIL")
		os.Exit(1)
	}
	os.Exit(m.Run())
}
