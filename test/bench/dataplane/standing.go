//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// standing is what an agent costs that knows many pods of other nodes, all on a Network of
// its own node.
type standing struct {
	pods    int
	fewPods int // that there were before
	// A start of one agent, with few pods and with all: until it is ready, what it
	// computed and received until then, and the most memory it had.
	few, all start
	written  time.Duration // until the API server had answered for all, published at once
	after    time.Duration // from then until the last node had all entries
	// one is the publication of one more, of which there were so many: what the agent of a
	// node computed and received for each, and how often it synced.
	one        publication
	oneCPU     time.Duration
	oneBytes   float64
	oneSyncs   float64
	syncAtRest time.Duration // one sync then, by the agent's own clock
}

type start struct {
	ready, cpu time.Duration
	bytes      float64
	peak       float64
}

// singles is how many are published one by one when many stand.
func (o options) singles() int { return max(10, o.published/3) }

func (b *bench) measureStanding(ctx context.Context) error {
	s := &b.results.standing
	n := b.lab.nodes[0]
	s.fewPods = len(b.results.few.begun)
	s.pods = s.fewPods + b.standing - b.published
	var err error
	if s.few, err = b.restart(ctx, n); err != nil {
		return err
	}
	e, err := watchEntries(b.lab.nodes)
	if err != nil {
		return err
	}
	defer e.close()
	if s.written, s.after, err = b.publishAtOnce(ctx, e, b.published, b.standing-b.published); err != nil {
		return err
	}
	b.say("%d pods stand: written in %v, programmed %v later", b.standing, s.written, s.after)
	if s.all, err = b.restart(ctx, n); err != nil {
		return err
	}
	b.say("a start with them: ready after %v, %v of CPU, %.1f MB received, peak %.0f MiB", s.all.ready, s.all.cpu, s.all.bytes/1e6, s.all.peak/(1<<20))
	time.Sleep(time.Second)
	return b.oneMore(ctx, e, n)
}

func (b *bench) oneMore(ctx context.Context, e *entries, n *node) error {
	s := &b.results.standing
	before, err := n.agent.spent(ctx)
	if err != nil {
		return err
	}
	if s.one.begun, s.one.answered, err = b.publishOneByOne(ctx, e, b.standing, b.singles()); err != nil {
		return err
	}
	after, err := n.agent.spent(ctx)
	if err != nil {
		return err
	}
	many := float64(len(s.one.begun))
	s.oneCPU = (after.cpu - before.cpu) / time.Duration(many)
	s.oneBytes, s.oneSyncs = (after.bytes-before.bytes)/many, (after.syncs-before.syncs)/many
	s.syncAtRest = time.Duration((after.syncSeconds - before.syncSeconds) / (after.syncs - before.syncs) * float64(time.Second))
	b.say("with them, one by one: %v; %v of CPU each, %.0f bytes, %.1f syncs of %v", s.one, s.oneCPU, s.oneBytes, s.oneSyncs, s.syncAtRest)
	return nil
}

// spent is what an agent has cost since it was started.
type spent struct {
	cpu                       time.Duration
	bytes, syncs, syncSeconds float64
}

func (g *agent) spent(ctx context.Context) (s spent, err error) {
	s.bytes = float64(g.down.Load())
	if s.cpu, err = cpuOf(g.cmd.Process.Pid); err != nil {
		return s, err
	}
	if s.syncs, err = g.metric(ctx, "pod2_agent_sync_duration_seconds_count"); err != nil {
		return s, err
	}
	s.syncSeconds, err = g.metric(ctx, "pod2_agent_sync_duration_seconds_sum")
	return s, err
}

func (b *bench) restart(ctx context.Context, n *node) (s start, err error) {
	n.agent.end()
	down := n.agent.down.Load()
	begin := time.Now()
	if err := n.agent.start(ctx, b.api); err != nil {
		return s, err
	}
	s.ready = time.Since(begin)
	if s.cpu, err = cpuOf(n.agent.cmd.Process.Pid); err != nil {
		return s, err
	}
	s.bytes = float64(n.agent.down.Load() - down)
	if s.peak, err = peakOf(n.agent.cmd.Process.Pid); err != nil {
		return s, fmt.Errorf("after a start: %w", err)
	}
	return s, nil
}
