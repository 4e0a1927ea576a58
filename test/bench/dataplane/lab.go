//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/kernel"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/network/multus"
	"github.com/pod2/pod2/test/bench/measure"
)

// lab has nodes on one wire, each a network namespace with an agent in it. Two more
// namespaces on the wire are without Networks: between them the underlay is measured.
//
//	wire: bridge br0, 1500 bytes
//	  ├── node1 10.9.0.1 ── nw1001 ── pods        ├── bare1 10.9.0.101
//	  ├── node2 10.9.0.2 ── nw1001 ── pods        ├── bare2 10.9.0.102
//	  ├── node3 10.9.0.3 ── nw1001 ── pods        ├── unruled-u1 10.9.0.111 ── nw1001 ── pod
//	  │                                           └── unruled-u2 10.9.0.112 ── nw1001 ── pod
type lab struct {
	dir          string
	wire         *namespace
	nodes        []*node
	bare1, bare2 *namespace
	opened       []*namespace
}

type node struct {
	*namespace
	ip    netip.Addr
	dir   string // the node's files
	agent *agent
}

// netnsDir holds the namespaces of the node's routers, cniDir the files of libcni.
func (n *node) netnsDir() string { return filepath.Join(n.dir, "netns") }
func (n *node) cniDir() string   { return filepath.Join(n.dir, "cni") }

func (n *node) kernel() *kernel.Kernel { return measure.Must(kernel.NewAt(n.path(), n.netnsDir())) }

const underlayMTU = 1500

func newLab(dir string, nodes int) *lab {
	l := &lab{dir: dir}
	l.wire = l.open("wire")
	l.wire.bridge("br0", underlayMTU)
	// The wire must cost as little as possible, so nothing filters there. Without br_netfilter
	// the file does not exist and is not needed.
	_ = l.wire.sysctl("net.bridge.bridge-nf-call-iptables", "0")
	for i := range nodes {
		l.nodes = append(l.nodes, l.addNode(fmt.Sprintf("node%d", i+1), netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)})))
	}
	l.bare1 = l.connect("bare1", netip.MustParseAddr("10.9.0.101"))
	l.bare2 = l.connect("bare2", world)
	return l
}

func (l *lab) addNode(name string, ip netip.Addr) *node {
	n := &node{ip: ip, dir: filepath.Join(l.dir, name)}
	measure.Check(os.MkdirAll(n.netnsDir(), 0o755))
	measure.Check(os.MkdirAll(n.cniDir(), 0o755))
	n.namespace = l.connect(name, ip)
	return n
}

// world is bare2, the destination of packets that leave a Network.
var world = netip.MustParseAddr("10.9.0.102")

func (l *lab) close() {
	for _, n := range l.opened {
		_ = n.file.Close()
	}
}

func (l *lab) open(name string) *namespace {
	n := newNamespace(name)
	l.opened = append(l.opened, n)
	return n
}

// connect a new namespace to the wire.
func (l *lab) connect(name string, ip netip.Addr) *namespace {
	n := l.open(name)
	l.wire.plug("br0", "w-"+name, n, "eth0", dataplane.MAC{}, underlayMTU)
	n.address("eth0", netip.PrefixFrom(ip, 24))
	return n
}

// newNetwork as agents read it.
func newNetwork(name string, vni int32, cidr string) dataplane.Network {
	n := dataplane.Network{Namespace: space, Name: name, VNI: vni, CIDR: netip.MustParsePrefix(cidr), MTU: underlayMTU - 50, Egress: true}
	n.Gateway, _ = ipam.DefaultGateway(n.CIDR)
	return n
}

// pod is a namespace with an address of a Network. It has a port on the bridge of a node. A
// pod that moves keeps its namespace, so its listeners keep running, as if its containers
// had been started before.
type pod struct {
	*namespace
	network dataplane.Network
	ip      netip.Addr
	node    *node
}

func macOf(ip netip.Addr) dataplane.MAC {
	return measure.Must(dataplane.ParseMAC(ipam.MAC(ip)))
}

// pod without a port.
func (l *lab) pod(name string, n dataplane.Network, ip string) *pod {
	return &pod{namespace: l.open(name), network: n, ip: netip.MustParseAddr(ip)}
}

// declared is the pod as agents read it.
func (p *pod) declared() dataplane.Pod {
	return dataplane.Pod{Namespace: space, Name: p.name, UID: types.UID(p.name), Node: p.node.name,
		Attachments: []dataplane.Attachment{{Network: p.network.Name, IP: p.ip, MAC: macOf(p.ip)}}}
}

// attach does the work of the plugin bridge, which makes a bridge if needed, and writes
// libcni's result file.
func (p *pod) attach(n *node, uid types.UID) {
	bridge := multus.Bridge(p.network.VNI)
	n.bridge(bridge, p.network.MTU)
	n.plug(bridge, p.port(), p.namespace, "net1", macOf(p.ip), p.network.MTU)
	p.address("net1", netip.PrefixFrom(p.ip, p.network.CIDR.Bits()))
	p.defaultRoute("net1", p.network.Gateway)
	p.node = n
	content := measure.Must(json.Marshal(map[string]any{
		"kind":    "cniCacheV1",
		"cniArgs": [][2]string{{"K8S_POD_UID", string(uid)}},
		"result": map[string]any{"interfaces": []map[string]string{
			{"name": bridge}, {"name": p.port()}, {"name": "net1", "sandbox": "/run/netns/" + p.name},
		}},
	}))
	measure.Check(os.WriteFile(p.file(), content, 0o600))
}

func (p *pod) detach() {
	measure.Check(os.Remove(p.file()))
	p.node.unplug(p.port())
}

func (p *pod) port() string { return "veth" + p.name }
func (p *pod) file() string { return filepath.Join(p.node.cniDir(), p.network.Name+"-"+p.name+"-net1") }
