//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// bench is the nodes, the API server, and the pods between which is measured.
type bench struct {
	options
	dir     string
	lab     *lab
	api     *api
	results results

	blue, v6 network
	unruled  []*node
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
	b.results.joinings = map[int][]joining{}
	for i := 0; i < b.rounds && b.only.MatchString("networks"); i++ {
		for _, many := range b.networks {
			j, err := measureJoining(b.dir, many)
			if err != nil {
				return fmt.Errorf("join %d Networks: %w", many, err)
			}
			b.results.joinings[many] = append(b.results.joinings[many], j)
			b.say("%d Networks: made in %v; nothing to do: read in %v, decided in %v", many, j.apply, j.read, j.compare)
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
	defer b.cleanUp()
	if err := b.setUp(ctx); err != nil {
		return err
	}
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

// measureTraffic takes each figure of all paths in turn, a moment apart: whatever else the
// machine does, it does to all of them.
func (b *bench) measureTraffic(ctx context.Context) error {
	for i := range b.rounds + 1 {
		round := map[string]traffic{}
		for _, measure := range []func(path, context.Context, time.Duration, *traffic) error{path.one, path.four, path.small, path.pingPong} {
			for _, p := range b.paths() {
				t := round[p.name]
				err := p.passing("0")
				if err == nil {
					err = measure(p, ctx, b.each, &t)
				}
				if err := errors.Join(err, p.passing("1")); err != nil {
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
