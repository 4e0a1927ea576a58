package main

import (
	"context"
	"fmt"
	"time"
)

// standing is what a controller costs that has nothing to do.
type standing struct {
	n             int
	base, live    float64 // heap in use, bytes
	calls, writes float64 // in idle
	cpu, idle     time.Duration
	start, synced time.Duration // until the caches are full, until all was looked at
	startWrites   float64
	heap          map[string]float64 // live's, by area: of 1
}

// stand measures a controller while all stand still, and a start of it.
func (b *bench) stand(ctx context.Context, n int) (err error) {
	s := b.standing
	s.n, s.idle = n, b.idle
	b.controller.stop()
	// A sample each 4 KiB; with the usual one each 512 a pod would be one in a hundred.
	if b.controller, err = b.startController(ctx, []string{"GODEBUG=memprofilerate=4096"}); err != nil {
		return err
	}
	p := b.controller
	synced, err := p.waitSynced(ctx)
	if err != nil {
		return err
	}
	s.start, s.synced = p.ready.Sub(p.started), synced.Sub(p.started)
	w, err := p.writes(ctx)
	if err != nil {
		return err
	}
	s.startWrites = w.total()

	calls, err := p.calls(ctx)
	if err != nil {
		return err
	}
	cpu, err := p.cpu()
	if err != nil {
		return err
	}
	select {
	case <-time.After(b.idle):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := p.cpu()
	if err != nil {
		return err
	}
	s.cpu = after - cpu
	later, err := p.calls(ctx)
	if err != nil {
		return err
	}
	s.calls = later - calls
	still, err := p.writes(ctx)
	if err != nil {
		return err
	}
	s.writes = still.minus(w).total()
	if s.base, err = b.base.live(ctx); err != nil {
		return err
	}
	if s.live, err = p.live(ctx); err != nil {
		return err
	}
	heap, err := p.profile(ctx, "/debug/pprof/heap?gc=1")
	if err != nil {
		return fmt.Errorf("profile the controller's heap: %w", err)
	}
	s.heap = share(heap, len(heap.SampleType)-1, heapAreas)
	return nil
}
