package main

import (
	"context"
	"time"

	"github.com/pod2/pod2/test/bench/measure"
)

// Measures the cost of an idle controller while no pod changes, and of its start.
func (b *bench) stand(ctx context.Context) {
	b.controller.Stop()
	// Take a sample each 4 KiB. With the default, each 512 KiB, only one pod in a hundred has one.
	b.controller = b.startController(ctx, []string{"GODEBUG=memprofilerate=4096"})
	c := b.controller
	synced := c.WaitSynced(ctx)
	b.Add(c.Ready.Sub(c.Started).Seconds(), "standing", "start")
	b.Add(synced.Sub(c.Started).Seconds(), "standing", "synced")
	b.Audit.Read()
	before, cpu := requests(ctx, c), c.CPU()
	b.Add(before["writes"], "standing", "writes of a start")
	select {
	case <-time.After(b.Idle):
	case <-ctx.Done():
		measure.Check(ctx.Err())
	}
	b.Add((c.CPU() - cpu).Seconds(), "standing", "CPU")
	after := requests(ctx, c)
	b.Add(after["all"]-before["all"], "standing", "calls")
	idle, late := 0, 0
	for write, count := range b.Audit.Read() {
		switch {
		case write.User != pod2User:
		case write.Resource == "addresshistories":
			late += count // of the laps before: they are written up to a minute later
		default:
			idle += count
			measure.Say("idle, and %d writes: %s %s", count, write.Verb, write.Resource)
		}
	}
	b.Add(float64(idle), "standing", "writes")
	b.Add(float64(late), "standing", "late writes")
	base, live := heap(ctx, b.base), heap(ctx, c)
	b.Add(base/(1<<20), "standing", "base, MiB")
	b.Add(live/(1<<20), "standing", "heap, MiB")
	perPod := func(bytes float64) float64 { return bytes / 1024 / float64(b.Large()) }
	b.Add(perPod(base), "heap", "base")
	b.Add(perPod(live-base), "heap", "a pod")
	shares := share(profileOf(ctx, c, "/debug/pprof/heap?gc=1"), heapAreas)
	for _, area := range names(heapAreas) {
		b.Add(perPod(shares[area]*live), "heap", area)
	}
}

// heap is the controller's memory in use, in bytes, after garbage collections that this function
// requests. A sync.Pool keeps its objects during the first one. Each request also leaves buffers, and
// after two requests every controller has them.
func heap(ctx context.Context, c *measure.Controller) float64 {
	for range 2 {
		c.Fetch(ctx, "/debug/pprof/heap?gc=1")
	}
	return c.Metrics(ctx).Sum("go_gc_heap_live_bytes", nil)
}
