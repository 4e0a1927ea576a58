//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/pod2/pod2/pkg/dataplane"
)

// bench is the nodes, the API server, and the pods between which is measured.
type bench struct {
	options
	dir     string
	lab     *lab
	api     *api
	results results

	blue, v6 network
	pods     map[string]*pod
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0fs  %s\n", time.Since(b.results.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (b *bench) measureAll(ctx context.Context) (err error) {
	b.results.entries = map[int][]programming{}
	for i := 0; i < b.rounds && b.only.MatchString("entries"); i++ {
		for _, many := range b.sizes {
			p, err := measureProgramming(b.dir, many)
			if err != nil {
				return fmt.Errorf("program %d pods: %w", many, err)
			}
			b.results.entries[many] = append(b.results.entries[many], p)
			b.say("%d pods: decided in %v, programmed in %v; nothing to do: %v", many, p.decide, p.apply, p.resync())
		}
	}
	if b.lab, err = newLab(filepath.Join(b.dir, "lab"), 3); err != nil {
		return err
	}
	defer b.lab.close()
	if b.api, err = startAPI(ctx, b.root, b.dir); err != nil {
		return err
	}
	defer b.api.close(ctx)
	if err := b.setUp(ctx); err != nil {
		return err
	}
	defer b.cleanUp()
	b.say("three agents are ready, pods are connected")
	for _, step := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"traffic", b.measureTraffic}, {"publication", b.measurePublication}, {"moves", b.measureMoves}, {"restart", b.measureRestart},
		{"standing", b.measureStanding}, {"fanout", b.measureFanout}, {"life", b.measureLife},
	} {
		if !b.only.MatchString(step.name) {
			continue
		}
		if err := step.measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

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
	for range 100 {
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
	for _, n := range b.lab.nodes {
		if err := removeAll(n); err != nil {
			fmt.Fprintf(os.Stderr, "bench-dataplane: clean up %s: %v\n", n.name, err)
		}
	}
}

func (b *bench) paths() []path {
	return []path{
		{underlay, b.lab.bare1, b.lab.bare2, world},
		{podToPod, b.pods["a"].namespace, b.pods["b"].namespace, b.pods["b"].ip},
		{overIPv6, b.pods["a6"].namespace, b.pods["b6"].namespace, b.pods["b6"].ip},
		{sameNode, b.pods["a"].namespace, b.pods["c"].namespace, b.pods["c"].ip},
		{outside, b.pods["a"].namespace, b.lab.bare2, world},
		{nodeToNode, b.lab.nodes[0].namespace, b.lab.nodes[1].namespace, b.lab.nodes[1].ip},
	}
}

// measureTraffic takes each figure of all paths in turn, a moment apart: whatever else the
// machine does, it does to all of them.
func (b *bench) measureTraffic(ctx context.Context) error {
	for i := range b.rounds + 1 {
		round := map[string]traffic{}
		for _, measure := range []func(path, context.Context, time.Duration, *traffic) error{path.one, path.four, path.small, path.pingPong} {
			for _, p := range b.paths() {
				t := round[p.name]
				if err := measure(p, ctx, b.each, &t); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				round[p.name] = t
			}
		}
		if i == 0 {
			continue // caches and entries of ARP are filled
		}
		for _, p := range b.paths() {
			t := round[p.name]
			b.say("%-32s %5.1f, %5.1f Gbit/s, %6.0f packets/s, %v, %v", p.name, t.oneStream, t.fourStreams, t.packets, t.p50, t.p99)
		}
		b.results.traffic = append(b.results.traffic, round)
	}
	return nil
}

func (b *bench) measurePublication(ctx context.Context) error {
	e, err := watchEntries(b.lab.nodes)
	if err != nil {
		return err
	}
	defer e.close()
	r := &b.results
	if r.few.begun, r.few.answered, err = b.publishOneByOne(ctx, e, 0, b.published); err != nil {
		return err
	}
	b.say("%d pods published one by one: %v", len(r.few.begun), r.few)
	return nil
}

// measureMoves has m go from node to node: what was its port is gone, its object too,
// another of the same name and address comes, and CNI attaches it.
func (b *bench) measureMoves(ctx context.Context) error {
	m := b.pods["m"]
	for i := range b.moves {
		p, err := startPings(ctx, b.pods["a"].namespace, m.ip)
		if err != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond)
		to := b.lab.nodes[1+(i+1)%2]
		begin := time.Now()
		if err := m.detach(); err != nil {
			return err
		}
		unplugged := time.Now()
		if err := b.api.remove(ctx, m.name); err != nil {
			return err
		}
		object, err := b.api.publish(ctx, m.name, to.name, m.network, m.ip)
		if err != nil {
			return err
		}
		written := time.Now()
		if err := m.attach(to, object.UID); err != nil {
			return err
		}
		attached := time.Now()
		if err := b.connected(ctx, b.pods["a"].namespace, m.ip); err != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond)
		_, lost := p.end()
		b.results.moves = append(b.results.moves, move{lost, unplugged.Sub(begin), written.Sub(unplugged), attached.Sub(written)})
		b.say("moved to %s: %d pings lost (unplugged in %v, written in %v, attached in %v)", to.name, lost, unplugged.Sub(begin), written.Sub(unplugged), attached.Sub(written))
	}
	return nil
}

// measureRestart ends the agents of both nodes, and starts them again, while pings go from
// one to the other.
func (b *bench) measureRestart(ctx context.Context) error {
	p, err := startPings(ctx, b.pods["a"].namespace, b.pods["b"].ip)
	if err != nil {
		return err
	}
	for _, n := range b.lab.nodes[:2] {
		n.agent.end()
	}
	time.Sleep(b.each)
	for _, n := range b.lab.nodes[:2] {
		if err := n.agent.start(ctx, b.api); err != nil {
			return err
		}
	}
	time.Sleep(b.each)
	b.results.restartSent, b.results.restartLost = p.end()
	b.say("agents restarted: %d of %d pings lost", b.results.restartLost, b.results.restartSent)
	return nil
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
		if _, err := k.Apply(plan); err != nil {
			return err
		}
	}
	return nil
}
