//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pod2/pod2/test/bench/measure"
)

// pings sends a packet each millisecond to a pod that sends it back.
type pings struct {
	conn net.Conn
	stop chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	sent uint64
	lost map[uint64]bool // until they come back
}

const (
	pingEvery = time.Millisecond
	echoPort  = 7
)

// echo sends all packets back until the pod's namespace is closed.
func echo(ctx context.Context, n *namespace) {
	var conn net.PacketConn
	n.do(func() {
		conn = measure.Must(new(net.ListenConfig).ListenPacket(ctx, "udp", fmt.Sprint(":", echoPort)))
	})
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(b[:n], from)
		}
	}()
}

// connected waits until a packet comes back.
func connected(ctx context.Context, from *namespace, to netip.Addr) {
	conn := from.dial(ctx, "udp", netip.AddrPortFrom(to, echoPort).String())
	defer conn.Close()
	for range 600 {
		_, _ = conn.Write([]byte("?"))
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 8)); err == nil {
			return
		}
	}
	measure.Check(fmt.Errorf("%s gets no answer from %s", from.name, to))
}

func startPings(ctx context.Context, from *namespace, to netip.Addr) *pings {
	conn := from.dial(ctx, "udp", netip.AddrPortFrom(to, echoPort).String())
	p := &pings{conn: conn, stop: make(chan struct{}), lost: map[uint64]bool{}}
	p.wg.Go(func() {
		tick := time.NewTicker(pingEvery)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
			}
			p.mu.Lock()
			i := p.sent
			p.sent, p.lost[i] = p.sent+1, true
			p.mu.Unlock()
			// An error belongs to an earlier packet that was refused. Lost packets are counted anyway.
			_, _ = conn.Write(binary.BigEndian.AppendUint64(nil, i))
		}
	})
	p.wg.Go(func() {
		b := make([]byte, 8)
		for {
			n, err := conn.Read(b)
			select {
			case <-p.stop:
				if err != nil {
					return
				}
			default:
			}
			if err == nil && n == 8 {
				p.mu.Lock()
				delete(p.lost, binary.BigEndian.Uint64(b))
				p.mu.Unlock()
			}
		}
	})
	return p
}

// end returns how many packets were sent, and how many did not come back.
func (p *pings) end() (sent, lost float64) {
	close(p.stop)
	time.Sleep(200 * time.Millisecond) // for packets that are still on their way
	_ = p.conn.Close()
	p.wg.Wait()
	return float64(p.sent), float64(len(p.lost))
}
