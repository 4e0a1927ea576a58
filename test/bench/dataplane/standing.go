//go:build linux

package main

import (
	"context"
	"time"

	"github.com/pod2/pod2/test/bench/measure"
)

// measureStanding is what an agent costs that knows many pods of other nodes, all on a
// Network of its own node: a start of it with few pods and with all, and one pod more.
func (b *bench) measureStanding(ctx context.Context) {
	n := b.lab.nodes[0]
	b.restart(ctx, n, "a start with few")
	e := watchEntries(b.lab.nodes)
	defer e.close()
	b.publishAtOnce(ctx, e, b.published, b.standing-b.published)
	b.restart(ctx, n, "a start with all")
	time.Sleep(time.Second)

	before := n.agent.spent(ctx)
	b.publishOneByOne(ctx, e, b.standing, max(10, b.published/3), "published more")
	after := n.agent.spent(ctx)
	many := float64(b.Count("published more", "begun"))
	syncs := after.syncs - before.syncs
	b.Add(measure.Milliseconds(after.cpu-before.cpu)/many, "one more", "CPU")
	b.Add((after.bytes-before.bytes)/many, "one more", "received")
	b.Add(syncs/many, "one more", "syncs")
	b.Add(1000*(after.syncSeconds-before.syncSeconds)/syncs, "one more", "a sync")
	measure.Say("each: %.1f ms of CPU, %.0f bytes, %.1f syncs of %.0f ms", b.Median("one more", "CPU"),
		b.Median("one more", "received"), b.Median("one more", "syncs"), b.Median("one more", "a sync"))
}

// restart the agent of a node: until it is ready, what it computed and received until
// then, and the most memory it had.
func (b *bench) restart(ctx context.Context, n *node, name string) {
	n.agent.end()
	down := n.agent.down.Load()
	begin := time.Now()
	n.agent.start(ctx, b)
	b.Add(time.Since(begin).Seconds(), name, "ready")
	b.Add(n.agent.CPU().Seconds(), name, "CPU")
	b.Add(float64(n.agent.down.Load()-down), name, "received")
	b.Add(n.agent.Peak(), name, "peak")
	measure.Say("%s: ready after %.2f s, %.2f s of CPU, %.1f MB received, peak %.0f MiB", name, b.Median(name, "ready"),
		b.Median(name, "CPU"), b.Median(name, "received")/1e6, b.Median(name, "peak")/(1<<20))
}
