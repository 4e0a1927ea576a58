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
)

// pings is a packet each millisecond to a pod that sends it back.
type pings struct {
	conn net.Conn
	stop chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	sent []time.Time
	lost map[uint64]bool // until they come back
}

const (
	pingEvery = time.Millisecond
	echoPort  = 7
)

// echo sends back what comes, until the pod's namespace is closed.
func echo(ctx context.Context, n *namespace) error {
	var conn net.PacketConn
	err := n.do(func() (err error) {
		conn, err = new(net.ListenConfig).ListenPacket(ctx, "udp", fmt.Sprint(":", echoPort))
		return err
	})
	if err != nil {
		return err
	}
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
	return nil
}

func startPings(ctx context.Context, from *namespace, to netip.Addr) (*pings, error) {
	conn, err := from.dial(ctx, "udp", netip.AddrPortFrom(to, echoPort).String())
	if err != nil {
		return nil, err
	}
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
			i := uint64(len(p.sent))
			p.sent, p.lost[i] = append(p.sent, time.Now()), true
			p.mu.Unlock()
			// An error is of an earlier packet that was refused; what is lost is counted.
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
	return p, nil
}

// end returns how many were sent, and how many never came back.
func (p *pings) end() (sent, lost int) {
	close(p.stop)
	time.Sleep(200 * time.Millisecond) // what is under way comes back
	_ = p.conn.Close()
	p.wg.Wait()
	return len(p.sent), len(p.lost)
}
