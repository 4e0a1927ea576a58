//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// path is a way that packets take.
type path struct {
	name     string
	from, to *namespace
	ip       netip.Addr // of to
	// bridged packets pass the chains of these nodes' own tables too, or not
	// (br_netfilter); nil: as everywhere.
	unfiltered []*node
}

// passing turns that on or off, where there is br_netfilter.
func (p path) passing(on string) error {
	for _, n := range p.unfiltered {
		for _, family := range []string{"ip", "ip6", "arp"} {
			if err := n.sysctl("net.bridge.bridge-nf-call-"+family+"tables", on); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// traffic is what one path did in one round.
type traffic struct {
	oneStream, fourStreams float64 // Gbit/s
	perGB                  float64 // CPU of one stream, ms for 10^9 bytes
	packets                float64 // of 64 bytes, a second
	p50, p99               time.Duration
}

const (
	testPort    = 5201
	payload     = 64
	readTimeout = 200 * time.Millisecond
)

func (p path) one(ctx context.Context, d time.Duration, t *traffic) (err error) {
	t.oneStream, t.perGB, err = p.streams(ctx, 1, d)
	return err
}

func (p path) four(ctx context.Context, d time.Duration, t *traffic) (err error) {
	t.fourStreams, _, err = p.streams(ctx, 4, d)
	return err
}

// streams sends as fast as it goes, and returns the Gbit/s that arrived in d, after a
// tenth of it, and what sender and receiver computed for each GB, ms: that is this process,
// which does nothing else, and what the kernel did meanwhile on its behalf.
func (p path) streams(ctx context.Context, n int, d time.Duration) (speed, perGB float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second+2*d)
	defer cancel()
	address := netip.AddrPortFrom(p.ip, testPort).String()
	l, err := p.to.listen(ctx, address)
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	var received atomic.Int64
	var conns []net.Conn
	var wg sync.WaitGroup
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
		wg.Wait()
	}()
	for range n {
		out, err := p.from.dial(ctx, "tcp", address)
		if err != nil {
			return 0, 0, err
		}
		conns = append(conns, out)
		in, err := l.Accept()
		if err != nil {
			return 0, 0, err
		}
		conns = append(conns, in)
		wg.Go(func() {
			b := make([]byte, 128<<10)
			for {
				if _, err := out.Write(b); err != nil {
					return
				}
			}
		})
		wg.Go(func() {
			b := make([]byte, 256<<10)
			for {
				n, err := in.Read(b)
				if err != nil {
					return
				}
				received.Add(int64(n))
			}
		})
	}
	time.Sleep(d / 10)
	begin, before, used := time.Now(), received.Load(), ownCPU()
	time.Sleep(d)
	gb := float64(received.Load()-before) / 1e9
	return 8 * gb / time.Since(begin).Seconds(), milliseconds(ownCPU()-used) / gb, nil
}

// ownCPU is what this process has computed.
func ownCPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// udp are two connected sockets whose calls block, so that nothing but the kernel wakes
// who waits.
func (p path) udp() (from, to int, err error) {
	open := func(n *namespace, f func(fd int) error) (fd int, err error) {
		err = n.do(func() (err error) {
			family := unix.AF_INET
			if p.ip.Is6() {
				family = unix.AF_INET6
			}
			if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			timeout := unix.NsecToTimeval(readTimeout.Nanoseconds())
			err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
				unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20), f(fd))
			if err != nil {
				_ = unix.Close(fd)
			}
			return err
		})
		return fd, err
	}
	if to, err = open(p.to, func(fd int) error { return unix.Bind(fd, sockaddr(p.ip)) }); err != nil {
		return 0, 0, err
	}
	if from, err = open(p.from, func(fd int) error { return unix.Connect(fd, sockaddr(p.ip)) }); err != nil {
		_ = unix.Close(to)
	}
	return from, to, err
}

func sockaddr(ip netip.Addr) unix.Sockaddr {
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: testPort, Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: testPort, Addr: ip.As16()}
}

// small counts how many packets of 64 bytes arrive in a second while one sender sends as
// many as it can.
func (p path) small(_ context.Context, d time.Duration, t *traffic) error {
	from, to, err := p.udp()
	if err != nil {
		return err
	}
	var stop atomic.Bool
	var received int64
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, payload)
		for !stop.Load() {
			_, _ = unix.Write(from, b)
		}
	})
	var took time.Duration
	wg.Go(func() {
		b := make([]byte, payload)
		for begin := time.Now(); took < d; took = time.Since(begin) {
			if n, err := unix.Read(to, b); err == nil && n == payload {
				received++
			}
		}
		stop.Store(true)
	})
	wg.Wait()
	_, _ = unix.Close(from), unix.Close(to)
	t.packets = float64(received) / took.Seconds()
	return nil
}

// pingPong sends a packet of 64 bytes there and back, one after the other.
func (p path) pingPong(_ context.Context, d time.Duration, t *traffic) error {
	from, to, err := p.udp()
	if err != nil {
		return err
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, payload)
		for !stop.Load() {
			if n, peer, err := unix.Recvfrom(to, b, 0); err == nil {
				_ = unix.Sendto(to, b[:n], 0, peer)
			}
		}
	})
	var times []time.Duration
	b := make([]byte, payload)
	for begin := time.Now(); time.Since(begin) < d; {
		sent := time.Now()
		if _, err := unix.Write(from, b); err != nil {
			continue
		}
		if _, err := unix.Read(from, b); err == nil {
			times = append(times, time.Since(sent))
		}
	}
	stop.Store(true)
	wg.Wait()
	_, _ = unix.Close(from), unix.Close(to)
	if len(times) < 10 {
		return fmt.Errorf("only %d packets came back", len(times))
	}
	slices.Sort(times)
	t.p50, t.p99 = percentile(times, 50), percentile(times, 99)
	return nil
}
