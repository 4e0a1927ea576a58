//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
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

func watchEntries(nodes []*node) (*entries, error) {
	e := &entries{at: map[netip.Addr]map[*node]time.Time{}, changed: make(chan struct{}), done: make(chan struct{})}
	for _, n := range nodes {
		ch := make(chan netlink.NeighUpdate, 1024)
		err := n.do(func() error {
			return netlink.NeighSubscribeWithOptions(ch, e.done, netlink.NeighSubscribeOptions{
				ReceiveBufferSize: 64 << 20, ReceiveBufferForceSize: true,
				ErrorCallback: func(err error) { e.fail(fmt.Errorf("watch the neighbours of %s: %w", n.name, err)) },
			})
		})
		if err != nil {
			e.close()
			return nil, fmt.Errorf("watch the neighbours of %s: %w", n.name, err)
		}
		go func() {
			for u := range ch {
				if ip, ok := netip.AddrFromSlice(u.IP); ok && u.Type == unix.RTM_NEWNEIGH && u.Family != unix.AF_BRIDGE && u.State&netlink.NUD_PERMANENT != 0 {
					e.note(ip.Unmap(), n, time.Now())
				}
			}
		}()
	}
	return e, nil
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
func (e *entries) wait(ctx context.Context, ips []netip.Addr, nodes int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for i := 0; i < len(ips); {
		e.mu.Lock()
		for i < len(ips) && len(e.at[ips[i]]) >= nodes {
			i++
		}
		changed, broken := e.changed, e.broken
		e.mu.Unlock()
		switch {
		case broken != nil:
			return time.Time{}, broken
		case i == len(ips):
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait until %d nodes have an entry for %s: %w", nodes, ips[i], ctx.Err())
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var last time.Time
	for _, ip := range ips {
		for _, at := range e.at[ip] {
			if at.After(last) {
				last = at
			}
		}
	}
	return last, nil
}

// publishOneByOne is, for each of the pods, how long it took from when its write was
// begun, and from when the API server had answered, until the last node had its entry.
// The agents are at rest in between. On a machine that is too slow there are fewer.
func (b *bench) publishOneByOne(ctx context.Context, e *entries, first, many int) (begun, answered []time.Duration, err error) {
	for i, start := first, time.Now(); i < first+many && time.Since(start) < patience; i++ {
		begin := time.Now()
		ip := remoteIP(i)
		if _, err := b.api.publish(ctx, fmt.Sprint("far-", i), "far1", big(), ip); err != nil {
			return nil, nil, fmt.Errorf("publish a pod: %w", err)
		}
		answer := time.Now()
		last, err := e.wait(ctx, []netip.Addr{ip}, len(b.lab.nodes))
		if err != nil {
			return nil, nil, err
		}
		// Not before the answer: the watch may be faster than it.
		begun, answered = append(begun, last.Sub(begin)), append(answered, max(0, last.Sub(answer)))
		// Never in step with the agents' rest.
		time.Sleep(time.Duration(10+i%41) * time.Millisecond)
	}
	return begun, answered, nil
}

const patience = time.Minute

// writers is how many requests are under way at once.
const writers = 16

// parallel does f for all numbers below many, and returns the first error.
func parallel(many int, f func(i int) error) error {
	var next atomic.Int64
	results := make(chan error, writers)
	for range writers {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= many {
					results <- nil
					return
				}
				if err := f(i); err != nil {
					next.Store(int64(many))
					results <- err
					return
				}
			}
		}()
	}
	var first error
	for range writers {
		if err := <-results; first == nil {
			first = err
		}
	}
	return first
}

// publishAtOnce is how long it took until the API server had answered all, and from then
// until the last node had all entries.
func (b *bench) publishAtOnce(ctx context.Context, e *entries, first, many int) (written, after time.Duration, err error) {
	begin := time.Now()
	ips := make([]netip.Addr, many)
	err = parallel(many, func(i int) error {
		ips[i] = remoteIP(first + i)
		_, err := b.api.publish(ctx, fmt.Sprint("far-", first+i), "far1", big(), ips[i])
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("publish pods: %w", err)
	}
	answer := time.Now()
	last, err := e.wait(ctx, ips, len(b.lab.nodes))
	return answer.Sub(begin), max(0, last.Sub(answer)), err
}
