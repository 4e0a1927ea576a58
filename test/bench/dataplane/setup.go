//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/network/multus"
)

func (b *bench) setUp(ctx context.Context) error {
	b.blue, b.v6, b.pods = newNetwork("blue", 1001, "192.168.0.0/16"), newNetwork("v6", 1003, "fd00:10::/64"), map[string]*pod{}
	for _, n := range b.lab.nodes {
		if err := b.api.node(ctx, n.name, n.ip); err != nil {
			return err
		}
	}
	for _, n := range far {
		if err := b.api.node(ctx, n.Name, n.Addresses[0]); err != nil {
			return err
		}
	}
	for _, n := range []network{b.blue, b.v6, big()} {
		if err := b.api.network(ctx, n); err != nil {
			return fmt.Errorf("create Network %s: %w", n.name, err)
		}
	}
	for _, n := range b.lab.nodes {
		if err := b.api.startAgent(ctx, n); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		name, ip string
		network  network
		node     int
	}{
		{"a", "192.168.0.2", b.blue, 0}, {"b", "192.168.0.3", b.blue, 1}, {"c", "192.168.0.4", b.blue, 0}, {"m", "192.168.0.5", b.blue, 1},
		{"n3", "192.168.0.6", b.blue, 2},
		{"a6", "fd00:10::2", b.v6, 0}, {"b6", "fd00:10::3", b.v6, 1},
		{"big1", "10.0.0.2", big(), 0}, {"big2", "10.0.0.3", big(), 1}, {"big3", "10.0.0.4", big(), 2},
	} {
		if err := b.startPod(ctx, p.name, p.network, p.ip, b.lab.nodes[p.node]); err != nil {
			return fmt.Errorf("start pod %s: %w", p.name, err)
		}
	}
	for _, to := range []string{"b", "c", "m", "n3"} {
		if err := b.connected(ctx, b.pods["a"].namespace, b.pods[to].ip); err != nil {
			return err
		}
	}
	if err := b.setUpUnruled(ctx); err != nil {
		return err
	}
	if err := echo(ctx, b.lab.bare2); err != nil {
		return err
	}
	if err := b.connected(ctx, b.pods["a"].namespace, world); err != nil {
		return err
	}
	return b.connected(ctx, b.pods["a6"].namespace, b.pods["b6"].ip)
}

func (b *bench) startPod(ctx context.Context, name string, n network, ip string, on *node) error {
	p, err := b.lab.pod(name, n, ip)
	if err != nil {
		return err
	}
	object, err := b.api.publish(ctx, name, on.name, n, p.ip)
	if err != nil {
		return err
	}
	// A kubelet comes to CNI later than the agent hears of the pod, as a rule.
	if err := b.until(ctx, "the agent to make the Network's links", func(context.Context) (bool, error) { return on.has(multus.Bridge(n.vni)), nil }); err != nil {
		return err
	}
	if err := p.attach(on, object.UID); err != nil {
		return err
	}
	b.pods[name] = p
	return echo(ctx, p.namespace)
}

// connected waits until a packet comes back.
func (b *bench) connected(ctx context.Context, from *namespace, to netip.Addr) error {
	conn, err := from.dial(ctx, "udp", netip.AddrPortFrom(to, echoPort).String())
	if err != nil {
		return err
	}
	defer conn.Close()
	for range 600 {
		_, _ = conn.Write([]byte("?"))
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 8)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("from %s nobody answers at %s", from.name, to)
}

// cleanUp has the agents undo what they made, as `pod2-agent cleanup` does on a node.
func (b *bench) cleanUp() {
	for _, n := range b.lab.nodes {
		n.agent.end()
	}
	for _, p := range b.pods {
		_ = p.detach()
	}
	for _, n := range slices.Concat(b.lab.nodes, b.unruled) {
		if err := removeAll(n); err != nil {
			fmt.Fprintf(os.Stderr, "dataplane: clean up %s: %v\n", n.name, err)
		}
	}
}

func removeAll(n *node) error {
	k, err := n.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	for range 2 {
		host, err := k.Read()
		if err != nil {
			return err
		}
		plan := dataplane.Diff(host, nil)
		if _, err := k.Perform(plan); err != nil {
			return err
		}
	}
	return nil
}
