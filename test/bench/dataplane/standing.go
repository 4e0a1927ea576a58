//go:build linux

package main

import (
	"context"
	"time"

	"github.com/pod2/pod2/test/bench/measure"
)

// measureStanding measures the cost of an agent that has many remote pods, all on a Network
// of its node: a start with few pods, a start with all, and one more pod.
func (b *bench) measureStanding(ctx context.Context) measure.Results {
	r := measure.Results{}
	n := b.lab.nodes[0]
	r.AddAll(b.restart(ctx, n), "few")
	e := watchEntries(b.lab.nodes)
	defer e.close()
	r.AddAll(b.publishAtOnce(ctx, e, b.published, b.AtOnce()), "at once")
	r.AddAll(b.restart(ctx, n), "all")
	time.Sleep(time.Second)

	before := n.agent.spent(ctx)
	more := b.publishOneByOne(ctx, e, b.standing, max(10, b.published/3))
	r.AddAll(more, "more")
	after := n.agent.spent(ctx)
	many, syncs := float64(more.Count("begun")), after.syncs-before.syncs
	r.Add(measure.Milliseconds(after.cpu-before.cpu)/many, "one", "CPU")
	r.Add((after.bytes-before.bytes)/many, "one", "received")
	r.Add(syncs/many, "one", "syncs")
	r.Add(1000*(after.syncSeconds-before.syncSeconds)/syncs, "one", "a sync")
	return r
}

// restart the agent of a node. Until it is ready, measure its CPU time, its received bytes
// and its peak memory.
func (b *bench) restart(ctx context.Context, n *node) measure.Results {
	n.agent.end()
	down := n.agent.down.Load()
	begin := time.Now()
	n.agent.start(ctx, b)
	r := measure.Results{}
	r.Add(time.Since(begin).Seconds(), "ready")
	r.Add(n.agent.CPU().Seconds(), "CPU")
	r.Add(float64(n.agent.down.Load()-down), "received")
	r.Add(n.agent.Peak(), "peak")
	return r
}
