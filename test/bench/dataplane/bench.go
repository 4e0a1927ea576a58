//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/test/bench/measure"
)

// bench has the nodes, the API server, and the pods at the ends of each path.
type bench struct {
	report
	*measure.Cluster
	dir     string
	lab     *lab
	blue    dataplane.Network
	unruled []*node
	pods    map[string]*pod
	// uids of the published pods, by name, as preconditions of changes and deletions.
	uids sync.Map
}

func (b *bench) measureAll(ctx context.Context) {
	for range b.Rounds {
		for _, many := range b.Sizes {
			b.step("entries", func() measure.Results { return b.measureEntries(many) })
		}
	}
	for range b.Rounds {
		for _, many := range b.Networks {
			b.step("networks", func() measure.Results { return b.measureNetworks(many) })
		}
	}
	b.lab = newLab(filepath.Join(b.dir, "lab"), 3)
	defer b.lab.close()
	b.Cluster = measure.StartCluster(ctx, b.root, filepath.Join(b.dir, "api"), 2, "crd/")
	defer b.Stop(ctx)
	defer b.cleanUp()
	b.setUp(ctx)
	measure.Say("three agents are ready, pods are connected")
	b.step("traffic", func() measure.Results { return b.measureTraffic(ctx) })
	b.step("publication", func() measure.Results { return b.measurePublication(ctx) })
	b.step("moves", func() measure.Results { return b.measureMoves(ctx) })
	b.step("restart", func() measure.Results { return b.measureRestart(ctx) })
	b.step("standing", func() measure.Results { return b.measureStanding(ctx) })
	b.step("fanout", func() measure.Results { return b.measureFanout(ctx) })
	b.step("life", func() measure.Results { return b.measureLife(ctx) })
}

// step runs f and adds its results under this name, unless --only excludes it.
func (b *bench) step(name string, f func() measure.Results) {
	if b.only.MatchString(name) {
		r := f()
		measure.Say("%s: %s", name, r)
		b.AddAll(r, name)
	}
}

func (b *bench) paths() []path {
	nodes := b.lab.nodes
	paths := []path{
		{name: underlay, from: b.lab.bare1, to: b.lab.bare2, ip: world},
		{name: podToPod, from: b.pods["a"].namespace, to: b.pods["b"].namespace, ip: b.pods["b"].ip},
		{name: overIPv6, from: b.pods["a6"].namespace, to: b.pods["b6"].namespace, ip: b.pods["b6"].ip},
		{name: bridgeAndVXLAN, from: b.pods["u1"].namespace, to: b.pods["u2"].namespace, ip: b.pods["u2"].ip, unfiltered: b.unruled},
		{name: sameNode, from: b.pods["a"].namespace, to: b.pods["c"].namespace, ip: b.pods["c"].ip},
		{name: outside, from: b.pods["a"].namespace, to: b.lab.bare2, ip: world},
		{name: nodeToNode, from: nodes[0].namespace, to: nodes[1].namespace, ip: nodes[1].ip},
	}
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil {
		paths = slices.Insert(paths, 2, path{name: unfiltered, from: paths[1].from, to: paths[1].to, ip: paths[1].ip, unfiltered: nodes[:2]})
	}
	return paths
}

// measureTraffic measures a figure on all paths, one shortly after the other, so other work
// of the machine affects all of them.
func (b *bench) measureTraffic(ctx context.Context) measure.Results {
	r := measure.Results{}
	for i := range b.Rounds + 1 {
		round := measure.Results{}
		for _, figure := range []func(path, context.Context, time.Duration, measure.Results){path.one, path.four, path.small, path.pingPong} {
			for _, p := range b.paths() {
				p.passing("0")
				figure(p, ctx, b.each, round)
				p.passing("1")
			}
		}
		if i > 0 { // the first round fills caches and ARP entries
			addRound(r, round)
		}
	}
	return r
}

func (b *bench) measurePublication(ctx context.Context) measure.Results {
	e := watchEntries(b.lab.nodes)
	defer e.close()
	return b.publishOneByOne(ctx, e, 0, b.published)
}

// measureMoves moves m from node to node: its port and its object are removed, another with
// its name and address is created, and CNI attaches it.
func (b *bench) measureMoves(ctx context.Context) measure.Results {
	r, m, a := measure.Results{}, b.pods["m"], b.pods["a"].namespace
	for i := range b.moves {
		p := startPings(ctx, a, m.ip)
		time.Sleep(200 * time.Millisecond)
		to := b.lab.nodes[1+(i+1)%2]
		begin := time.Now()
		m.detach()
		unplugged := time.Now()
		b.remove(ctx, m.name)
		uid := b.publish(ctx, m.name, to.name, m.network, m.ip)
		written := time.Now()
		m.attach(to, uid)
		attached := time.Now()
		connected(ctx, a, m.ip)
		time.Sleep(200 * time.Millisecond)
		_, lost := p.end()
		r.Add(lost, "lost")
		r.Add(measure.Milliseconds(unplugged.Sub(begin)), "unplugged")
		r.Add(measure.Milliseconds(written.Sub(unplugged)), "written")
		r.Add(measure.Milliseconds(attached.Sub(written)), "attached")
	}
	return r
}

// measureRestart stops the agents of both nodes and starts them again, during pings between
// the nodes.
func (b *bench) measureRestart(ctx context.Context) measure.Results {
	p := startPings(ctx, b.pods["a"].namespace, b.pods["b"].ip)
	for _, n := range b.lab.nodes[:2] {
		n.agent.end()
	}
	time.Sleep(b.each)
	for _, n := range b.lab.nodes[:2] {
		n.agent.start(ctx, b)
	}
	time.Sleep(b.each)
	sent, lost := p.end()
	r := measure.Results{}
	r.Add(sent, "sent")
	r.Add(lost, "lost")
	return r
}
