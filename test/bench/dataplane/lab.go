//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/test/bench/measure"
)

// lab has nodes on one wire, each a network namespace with an agent in it. Three more namespaces on the wire are
// without Networks: between them the wire itself is measured. Two are on a bridge of their own.
//
//	wire: bridge br0, 1500 bytes                  plain: bridge br0, 1450 bytes
//	  ├── node1 10.9.0.1 ── pods                    ├── plain1 10.8.0.1
//	  ├── node2 10.9.0.2 ── pods                    └── plain2 10.8.0.2
//	  ├── node3 10.9.0.3 ── pods
//	  ├── bare1 10.9.0.101
//	  ├── bare2 10.9.0.102
//	  └── bare3 10.9.0.103, without TSO
type lab struct {
	dir            string
	wire           *namespace
	nodes          []*node
	bare1, bare2   *namespace
	bare3          *namespace
	plain1, plain2 *namespace
	opened         []*namespace
}

type node struct {
	*namespace
	ip    netip.Addr
	dir   string // the node's files
	agent *agent
}

const underlayMTU = 1500

// world is bare2, the destination of packets that leave a Network.
var (
	world = netip.MustParseAddr("10.9.0.102")
	plain = netip.MustParseAddr("10.8.0.2")
)

func newLab(dir string, nodes int) *lab {
	l := &lab{dir: dir}
	l.wire = l.open("wire")
	l.wire.bridge()
	l.wire.do(skipFirewall)
	for i := range nodes {
		ip := netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)})
		n := &node{ip: ip, namespace: l.connect(l.wire, fmt.Sprint("node", i+1), ip, underlayMTU)}
		n.dir = filepath.Join(dir, n.name)
		measure.Check(os.MkdirAll(n.path("netns"), 0o755))
		mountBPF(n.path("bpf"))
		l.nodes = append(l.nodes, n)
	}
	l.bare1 = l.connect(l.wire, "bare1", netip.MustParseAddr("10.9.0.101"), underlayMTU)
	l.bare2 = l.connect(l.wire, "bare2", world, underlayMTU)
	l.bare3 = l.connect(l.wire, "bare3", netip.MustParseAddr("10.9.0.103"), underlayMTU)
	bridge := l.open("plain")
	bridge.bridge()
	l.plain1 = l.connect(bridge, "plain1", netip.MustParseAddr("10.8.0.1"), underlayMTU-50)
	l.plain2 = l.connect(bridge, "plain2", plain, underlayMTU-50)
	return l
}

// skipFirewall keeps packets of bridges from the rules of iptables, as those on a cable meet none. A bridge of a node passes
// them there, because kubelets need it.
func skipFirewall() {
	for _, protocol := range []string{"ip", "ip6", "arp"} {
		err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+protocol+"tables", []byte("0"), 0o644)
		if !errors.Is(err, fs.ErrNotExist) { // a kernel without the module br_netfilter
			measure.Check(err)
		}
	}
}

// path is a path of the node's own.
func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// mountBPF mounts a BPF file system. It ends with the mount namespace of this process.
func mountBPF(dir string) {
	measure.Check(os.MkdirAll(dir, 0o700))
	measure.Check(unix.Mount("bpf", dir, "bpf", 0, ""))
}

func unmountBPF(dir string) { _ = unix.Unmount(dir, unix.MNT_DETACH) }

func (l *lab) close() {
	for _, n := range l.opened {
		_ = n.file.Close()
	}
	for _, n := range l.nodes {
		unmountBPF(n.path("bpf"))
	}
}

func (l *lab) open(name string) *namespace {
	n := newNamespace(name)
	l.opened = append(l.opened, n)
	return n
}

// connect a new namespace to a bridge.
func (l *lab) connect(bridge *namespace, name string, ip netip.Addr, mtu int) *namespace {
	n := l.open(name)
	bridge.plug(n, mtu)
	n.address("eth0", netip.PrefixFrom(ip, 24))
	return n
}

// The wires differ in the place where large TCP packets are cut to 1,500 bytes:
//
//	gso  nowhere: they pass whole, as on veth
//	nic  the wire, and GRO of the receiver puts them together: as network cards with TSO for tunnels
//	cut  the sending node if they are in a tunnel, else the wire: as network cards without TSO for tunnels
const gso, nic, cut = "gso", "nic", "cut"

// use a wire from now on.
func (l *lab) use(ctx context.Context, wire string) {
	onOff := map[bool]string{true: "on", false: "off"}
	tunnels := func(on bool) []string {
		return []string{"tx-udp_tnl-segmentation", onOff[on], "tx-udp_tnl-csum-segmentation", onOff[on]}
	}
	l.bare3.offload(ctx, "eth0", "tso", "off")
	for _, n := range l.ends() {
		whole := wire == gso
		l.wire.offload(ctx, portOf(n), append(tunnels(whole), "tso", onOff[whole], "gso", onOff[whole])...)
		n.offload(ctx, "eth0", append(tunnels(wire != cut), "gro", onOff[!whole])...)
	}
}

// ends of the wire.
func (l *lab) ends() []*namespace {
	ends := []*namespace{l.bare1, l.bare2, l.bare3}
	for _, n := range l.nodes {
		ends = append(ends, n.namespace)
	}
	return ends
}

// pod is a namespace that may be attached to a Network on a node. A pod that moves keeps its namespace, so its
// listeners keep running, as if its containers had been started before.
type pod struct {
	*namespace
	network dataplane.Network
	ip      netip.Addr
	node    *node
	uid     string
}
