//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/test/bench/measure"
)

// entries is when which address got its entry, the last that the agent makes of a pod, in
// the kernels of nodes: the kernel says so itself.
type entries struct {
	mu      sync.Mutex
	at      map[netip.Addr]map[*node]time.Time // the first time
	broken  error
	changed chan struct{} // closed and replaced at each
	done    chan struct{}
}

func watchEntries(nodes []*node) *entries {
	e := &entries{at: map[netip.Addr]map[*node]time.Time{}, changed: make(chan struct{}), done: make(chan struct{})}
	for _, n := range nodes {
		ch := make(chan netlink.NeighUpdate, 1024)
		n.do(func() {
			measure.Check(netlink.NeighSubscribeWithOptions(ch, e.done, netlink.NeighSubscribeOptions{
				ReceiveBufferSize: 64 << 20, ReceiveBufferForceSize: true,
				ErrorCallback: func(err error) { e.fail(fmt.Errorf("watch the neighbours of %s: %w", n.name, err)) },
			}))
		})
		go func() {
			for u := range ch {
				if ip, ok := netip.AddrFromSlice(u.IP); ok && u.Type == unix.RTM_NEWNEIGH && u.Family != unix.AF_BRIDGE && u.State&netlink.NUD_PERMANENT != 0 {
					e.note(ip.Unmap(), n, time.Now())
				}
			}
		}()
	}
	return e
}

func (e *entries) close() { close(e.done) }

func (e *entries) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.done:
	default:
		e.broken = err
		e.ring()
	}
}

func (e *entries) ring() {
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *entries) note(ip netip.Addr, n *node, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at[ip] == nil {
		e.at[ip] = map[*node]time.Time{}
	}
	if _, known := e.at[ip][n]; !known {
		e.at[ip][n] = now
		e.ring()
	}
}

// wait until so many nodes have so many entries, and return when the last of them came.
func (e *entries) wait(ctx context.Context, ips []netip.Addr, nodes int) (last time.Time) {
	ctx, cancel := context.WithTimeout(ctx, measure.Patience)
	defer cancel()
	for i := 0; i < len(ips); {
		e.mu.Lock()
		for ; i < len(ips) && len(e.at[ips[i]]) >= nodes; i++ {
			for _, at := range e.at[ips[i]] {
				if at.After(last) {
					last = at
				}
			}
		}
		changed, broken := e.changed, e.broken
		e.mu.Unlock()
		measure.Check(broken)
		if i == len(ips) {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			measure.Check(fmt.Errorf("wait until %d nodes have an entry for %s: %w", nodes, ips[i], ctx.Err()))
		}
	}
	return last
}

// publishRemote publishes the i-th pod of another node.
func (b *bench) publishRemote(ctx context.Context, i int) netip.Addr {
	b.publish(ctx, fmt.Sprint("far-", i), "far1", big(), remoteIP(i))
	return remoteIP(i)
}

// publishOneByOne is, for each of the pods, how long it took from when its write was
// begun, and from when the API server had answered, until the last node had its entry.
// The agents are at rest in between. On a machine that is too slow there are fewer.
func (b *bench) publishOneByOne(ctx context.Context, e *entries, first, many int, name string) {
	for i, start := first, time.Now(); i < first+many && time.Since(start) < time.Minute; i++ {
		begin := time.Now()
		ip := b.publishRemote(ctx, i)
		answer := time.Now()
		last := e.wait(ctx, []netip.Addr{ip}, len(b.lab.nodes))
		b.Add(measure.Milliseconds(last.Sub(begin)), name, "begun")
		// Not before the answer: the watch may be faster than it.
		b.Add(measure.Milliseconds(max(0, last.Sub(answer))), name, "answered")
		// Never in step with the agents' rest.
		time.Sleep(time.Duration(10+i%41) * time.Millisecond)
	}
	measure.Say("%d pods %s one by one: p50, p99, most %s ms", b.Count(name, "begun"), name, b.Percentiles(name, "begun"))
}

// publishAtOnce is how long it took until the API server had answered all, and from then
// until the last node had all entries.
func (b *bench) publishAtOnce(ctx context.Context, e *entries, first, many int) {
	begin := time.Now()
	ips := make([]netip.Addr, many)
	measure.Parallel(many, func(i int) { ips[i] = b.publishRemote(ctx, first+i) })
	answer := time.Now()
	last := e.wait(ctx, ips, len(b.lab.nodes))
	b.Add(answer.Sub(begin).Seconds(), "all at once", "answered")
	b.Add(max(0, last.Sub(answer)).Seconds(), "all at once", "programmed")
	measure.Say("%d pods at once: written in %v, programmed %v later", many, answer.Sub(begin), max(0, last.Sub(answer)))
}
