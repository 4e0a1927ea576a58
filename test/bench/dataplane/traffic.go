//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/test/bench/measure"
)

// path is a route that packets take.
type path struct {
	name     string
	from, to *namespace
	ip       netip.Addr // the address of to
	// On these nodes, bridged packets do not pass the chains of the node's own tables
	// (br_netfilter is off).
	unfiltered []*node
}

// passing turns br_netfilter on or off, if the kernel has it.
func (p path) passing(on string) {
	for _, n := range p.unfiltered {
		for _, family := range []string{"ip", "ip6", "arp"} {
			if err := n.sysctl("net.bridge.bridge-nf-call-"+family+"tables", on); !errors.Is(err, fs.ErrNotExist) {
				measure.Check(err)
			}
		}
	}
}

const (
	testPort    = 5201
	payload     = 64
	readTimeout = 200 * time.Millisecond
)

// The figures of a path. Each function measures some of them.
var trafficFigures = []string{"one stream", "CPU", "four streams", "packets", "p50", "p99"}

func (p path) one(ctx context.Context, d time.Duration, round measure.Results) {
	speed, perGB := p.streams(ctx, 1, d)
	round.Add(speed, p.name, "one stream")
	round.Add(perGB, p.name, "CPU")
}

func (p path) four(ctx context.Context, d time.Duration, round measure.Results) {
	speed, _ := p.streams(ctx, 4, d)
	round.Add(speed, p.name, "four streams")
}

// streams sends as fast as possible. It returns the Gbit/s that arrived in d, without the
// first tenth, and the CPU time of sender and receiver for each GB, in ms. Both are this
// process, which does nothing else; the time includes the kernel's work on its behalf.
func (p path) streams(ctx context.Context, n int, d time.Duration) (speed, perGB float64) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second+2*d)
	defer cancel()
	address := netip.AddrPortFrom(p.ip, testPort).String()
	l := p.to.listen(ctx, address)
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
		out := p.from.dial(ctx, "tcp", address)
		conns = append(conns, out)
		in := measure.Must(l.Accept())
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
	return 8 * gb / time.Since(begin).Seconds(), measure.Milliseconds(ownCPU()-used) / gb
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u unix.Rusage
	measure.Check(unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// udp calls both functions with two connected sockets, whose calls block, so only the kernel
// wakes a waiting caller. It repeats background until measured returns.
func (p path) udp(background, measured func(from, to int)) {
	family := unix.AF_INET
	if p.ip.Is6() {
		family = unix.AF_INET6
	}
	open := func() int {
		fd := measure.Must(unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))
		timeout := unix.NsecToTimeval(readTimeout.Nanoseconds())
		measure.Check(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
		measure.Check(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20))
		return fd
	}
	var from, to int
	p.to.do(func() {
		to = open()
		measure.Check(unix.Bind(to, sockaddr(p.ip)))
	})
	defer unix.Close(to)
	p.from.do(func() {
		from = open()
		measure.Check(unix.Connect(from, sockaddr(p.ip)))
	})
	defer unix.Close(from)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			background(from, to)
		}
	})
	measured(from, to)
	stop.Store(true)
	wg.Wait()
}

func sockaddr(ip netip.Addr) unix.Sockaddr {
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: testPort, Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: testPort, Addr: ip.As16()}
}

// small counts the packets of 64 bytes that arrive in a second, in thousands, while one sender
// sends as many as it can.
func (p path) small(_ context.Context, d time.Duration, round measure.Results) {
	out, in := make([]byte, payload), make([]byte, payload)
	p.udp(func(from, _ int) {
		_, _ = unix.Write(from, out)
	}, func(_, to int) {
		received, took := 0, time.Duration(0)
		for begin := time.Now(); took < d; took = time.Since(begin) {
			if n, err := unix.Read(to, in); err == nil && n == payload {
				received++
			}
		}
		round.Add(float64(received)/took.Seconds()/1000, p.name, "packets")
	})
}

// pingPong sends packets of 64 bytes there and back, one after the other.
func (p path) pingPong(_ context.Context, d time.Duration, round measure.Results) {
	there, back := make([]byte, payload), make([]byte, payload)
	var times []float64 // µs
	p.udp(func(_, to int) {
		if n, peer, err := unix.Recvfrom(to, there, 0); err == nil {
			_ = unix.Sendto(to, there[:n], 0, peer)
		}
	}, func(from, _ int) {
		for begin := time.Now(); time.Since(begin) < d; {
			sent := time.Now()
			if _, err := unix.Write(from, back); err != nil {
				continue
			}
			if _, err := unix.Read(from, back); err == nil {
				times = append(times, 1000*measure.Milliseconds(time.Since(sent)))
			}
		}
	})
	if len(times) < 10 {
		measure.Check(fmt.Errorf("only %d packets came back", len(times)))
	}
	round.Add(measure.PercentileOf(times, 50), p.name, "p50")
	round.Add(measure.PercentileOf(times, 99), p.name, "p99")
}
