//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/test/bench/measure"
)

// entries records when each address got its entry in the kernels of nodes. The kernel itself
// reports the entry, the last one that the agent makes for a pod.
type entries struct {
	measure.Watched
	at   map[netip.Addr]map[*node]time.Time // of the first report
	done chan struct{}
}

func watchEntries(nodes []*node) *entries {
	e := &entries{at: map[netip.Addr]map[*node]time.Time{}, done: make(chan struct{})}
	for _, n := range nodes {
		ch := make(chan netlink.NeighUpdate, 1024)
		n.do(func() {
			measure.Check(netlink.NeighSubscribeWithOptions(ch, e.done, netlink.NeighSubscribeOptions{
				ReceiveBufferSize: 64 << 20, ReceiveBufferForceSize: true,
				ErrorCallback: func(err error) { e.Break(fmt.Errorf("watch the neighbours of %s: %w", n.name, err)) },
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

func (e *entries) note(ip netip.Addr, n *node, now time.Time) {
	e.Do(func() {
		if e.at[ip] == nil {
			e.at[ip] = map[*node]time.Time{}
		}
		if _, known := e.at[ip][n]; !known {
			e.at[ip][n] = now
		}
	})
}

// wait until so many nodes have so many entries, and return the time of the last one.
func (e *entries) wait(ctx context.Context, ips []netip.Addr, nodes int) (last time.Time) {
	i := 0
	e.Wait(ctx, fmt.Sprintf("%d nodes have entries of %d pods", nodes, len(ips)), func() bool {
		for ; i < len(ips) && len(e.at[ips[i]]) >= nodes; i++ {
			for _, at := range e.at[ips[i]] {
				if at.After(last) {
					last = at
				}
			}
		}
		return i == len(ips)
	})
	return last
}

// publishRemote publishes the i-th pod of another node.
func (b *bench) publishRemote(ctx context.Context, i int) netip.Addr {
	b.publish(ctx, fmt.Sprint("far-", i), "far1", big(), remoteIP(i))
	return remoteIP(i)
}

// publishOneByOne measures each pod's time until the last node has its entry: from the start
// of its write, and from the answer of the API server. The agents are idle in between. A slow
// machine publishes fewer pods.
func (b *bench) publishOneByOne(ctx context.Context, e *entries, first, many int) measure.Results {
	r := measure.Results{}
	for i, start := first, time.Now(); i < first+many && time.Since(start) < time.Minute; i++ {
		begin := time.Now()
		ip := b.publishRemote(ctx, i)
		answer := time.Now()
		last := e.wait(ctx, []netip.Addr{ip}, len(b.lab.nodes))
		r.Add(measure.Milliseconds(last.Sub(begin)), "begun")
		// Not negative: the watch may be faster than the answer.
		r.Add(measure.Milliseconds(max(0, last.Sub(answer))), "answered")
		// The pause varies, to be out of step with the agents' rest.
		time.Sleep(time.Duration(10+i%41) * time.Millisecond)
	}
	return r
}

// publishAtOnce measures the time until the API server has answered all requests, and from
// then until the last node has all entries.
func (b *bench) publishAtOnce(ctx context.Context, e *entries, first, many int) measure.Results {
	begin := time.Now()
	ips := make([]netip.Addr, many)
	measure.Parallel(many, func(i int) { ips[i] = b.publishRemote(ctx, first+i) })
	answer := time.Now()
	last := e.wait(ctx, ips, len(b.lab.nodes))
	r := measure.Results{}
	r.Add(answer.Sub(begin).Seconds(), "answered")
	r.Add(max(0, last.Sub(answer)).Seconds(), "programmed")
	return r
}
