//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/network/multus"
	"github.com/pod2/pod2/test/bench/measure"
)

func (b *bench) setUp(ctx context.Context) {
	b.blue = newNetwork("blue", 1001, "192.168.0.0/16")
	v6 := newNetwork("v6", 1003, "fd00:10::/64")
	for _, n := range b.lab.nodes {
		b.createNode(ctx, n.name, n.ip)
	}
	for _, n := range far {
		b.createNode(ctx, n.Name, n.Addresses[0])
	}
	for _, n := range []dataplane.Network{b.blue, v6, big()} {
		b.createNetwork(ctx, n)
	}
	for _, n := range b.lab.nodes {
		b.startAgent(ctx, n)
	}
	for _, p := range []struct {
		name, ip string
		network  dataplane.Network
		node     int
	}{
		{"a", "192.168.0.2", b.blue, 0}, {"b", "192.168.0.3", b.blue, 1}, {"c", "192.168.0.4", b.blue, 0}, {"m", "192.168.0.5", b.blue, 1},
		{"n3", "192.168.0.6", b.blue, 2},
		{"a6", "fd00:10::2", v6, 0}, {"b6", "fd00:10::3", v6, 1},
		{"big1", "10.0.0.2", big(), 0}, {"big2", "10.0.0.3", big(), 1}, {"big3", "10.0.0.4", big(), 2},
	} {
		b.startPod(ctx, p.name, p.network, p.ip, b.lab.nodes[p.node])
	}
	for _, to := range []string{"b", "c", "m", "n3"} {
		connected(ctx, b.pods["a"].namespace, b.pods[to].ip)
	}
	b.setUpUnruled(ctx)
	echo(ctx, b.lab.bare2)
	connected(ctx, b.pods["a"].namespace, world)
	connected(ctx, b.pods["a6"].namespace, b.pods["b6"].ip)
}

func (b *bench) startPod(ctx context.Context, name string, n dataplane.Network, ip string, on *node) {
	p := b.lab.pod(name, n, ip)
	uid := b.publish(ctx, name, on.name, n, p.ip)
	// The kubelet usually calls CNI after the agent has seen the pod.
	measure.Until(ctx, 50*time.Millisecond, "the agent to make the Network's links", func() bool { return on.has(multus.Bridge(n.VNI)) })
	p.attach(on, uid)
	b.pods[name] = p
	echo(ctx, p.namespace)
}

// setUpUnruled makes two more nodes on the wire. They have the agent's links and entries, but
// not its rules. No data plane of bridge and VXLAN is faster, so the difference from the
// agent's is the cost of isolation.
func (b *bench) setUpUnruled(ctx context.Context) {
	s := dataplane.State{UDPPort: 4789, Transit: netip.MustParsePrefix("100.64.0.0/16"), Networks: []dataplane.Network{b.blue}}
	for i, name := range []string{"u1", "u2"} {
		n := b.lab.addNode("unruled-"+name, netip.AddrFrom4([4]byte{10, 9, 0, byte(111 + i)}))
		b.unruled = append(b.unruled, n)
		p := b.lab.pod(name, b.blue, fmt.Sprint("192.168.0.", 2+i))
		p.node, b.pods[name] = n, p
		s.Nodes = append(s.Nodes, dataplane.Node{Name: n.name, Addresses: []netip.Addr{n.ip}})
		s.Pods = append(s.Pods, p.declared())
	}
	for _, p := range []*pod{b.pods["u1"], b.pods["u2"]} {
		a := &alone{node: p.node, kernel: p.node.kernel(), state: s, unruled: true}
		a.state.Node = p.node.name
		a.sync()
		measure.Check(a.kernel.Close())
		p.attach(p.node, p.declared().UID)
		echo(ctx, p.namespace)
	}
	connected(ctx, b.pods["u1"].namespace, b.pods["u2"].ip)
}

// cleanUp removes the agents' things, as `pod2-agent cleanup` does on a node.
func (b *bench) cleanUp() {
	for _, n := range b.lab.nodes {
		n.agent.end()
	}
	for _, p := range b.pods {
		_ = measure.Try(p.detach)
	}
	for _, n := range slices.Concat(b.lab.nodes, b.unruled) {
		measure.Cleanup(func() { removeAll(n) })
	}
}

func removeAll(n *node) {
	k := n.kernel()
	defer k.Close()
	for range 2 {
		measure.Must(k.Perform(dataplane.Diff(measure.Must(k.Read()), nil)))
	}
}
