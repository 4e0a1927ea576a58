//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/test/bench/measure"
)

// path is a way of packets.
type path struct {
	name     string
	from, to *namespace
	ip       netip.Addr // the address of to
}

// The paths, by their names on the page.
const (
	theWire     = "the wire"
	cutWire     = "the wire, cut by its sender"
	podToPod    = "pod to pod, two nodes"
	overIPv6    = "pod to pod, an IPv6 Network"
	outside     = "pod to outside, by the gateway"
	nodeToNode  = "node to node, with agents"
	sameNode    = "pod to pod, one node"
	plainBridge = "a bridge without rules"
)

func (b *bench) paths() []path {
	l, p := b.lab, b.pods
	return []path{
		{theWire, l.bare1, l.bare2, world},
		{cutWire, l.bare3, l.bare2, world},
		{podToPod, p["a"].namespace, p["b"].namespace, p["b"].ip},
		{overIPv6, p["a6"].namespace, p["b6"].namespace, p["b6"].ip},
		{outside, p["a"].namespace, l.bare2, world},
		{nodeToNode, l.nodes[0].namespace, l.nodes[1].namespace, l.nodes[1].ip},
		{plainBridge, l.plain1, l.plain2, plain},
		{sameNode, p["a"].namespace, p["c"].namespace, p["c"].ip},
	}
}

const (
	testPort    = 5201
	payload     = 22 // 64 bytes with the headers
	readTimeout = 200 * time.Millisecond
)

// The figures of a path.
const (
	one      = "one stream"
	cpu      = "CPU per byte" // measured with one stream
	four     = "four streams"
	small    = "64-byte packets"
	pingPong = "there and back, p50"
)

var measures = []struct {
	figure string
	of     func(path, context.Context, time.Duration, measure.Results)
}{{one, path.one}, {four, path.four}, {small, path.small}, {pingPong, path.pingPong}}

// thirds divide a round of traffic: a virtual machine is slower for some seconds at times, so the median of many short
// measurements says more than that of a few long ones.
const thirds = 3

// measureTraffic measures each figure on all paths, one shortly after the other, so other work of the machine
// affects all of them. A ratio is of two figures of the same round.
func (b *bench) measureTraffic(ctx context.Context) measure.Results {
	r := measure.Results{}
	for i := range thirds*b.Rounds + 1 {
		paths := b.paths()
		if i%2 == 1 {
			slices.Reverse(paths)
		}
		for _, wire := range []string{gso, nic, cut} {
			b.lab.use(ctx, wire)
			round := measure.Results{}
			for _, m := range measures {
				for _, p := range paths {
					if needed(wire, p.name, m.figure) {
						m.of(p, ctx, b.each/thirds, round)
					}
				}
			}
			if i > 0 { // the first round fills caches and ARP entries
				addRound(r, wire, round)
			}
		}
	}
	return r
}

func (p path) one(ctx context.Context, d time.Duration, round measure.Results) {
	speed, perGB := p.streams(ctx, 1, d)
	round.Add(speed, p.name, one)
	round.Add(perGB, p.name, cpu)
}

func (p path) four(ctx context.Context, d time.Duration, round measure.Results) {
	speed, _ := p.streams(ctx, 4, d)
	round.Add(speed, p.name, four)
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

// ownCPU is the CPU time of this process, and of the kernel's threads that process packets when the machine is busy.
func ownCPU() time.Duration {
	var u unix.Rusage
	measure.Check(unix.Getrusage(unix.RUSAGE_SELF, &u))
	sum := u.Utime.Nano() + u.Stime.Nano()
	for _, id := range ksoftirqd() {
		text := measure.Must(os.ReadFile("/proc/" + id + "/schedstat"))
		sum += measure.Must(strconv.ParseInt(strings.Fields(string(text))[0], 10, 64))
	}
	return time.Duration(sum)
}

// ksoftirqd are the ids of those threads, one for each core.
var ksoftirqd = sync.OnceValue(func() (ids []string) {
	for _, p := range measure.Must(procfs.AllProcs()) {
		if name, err := p.Comm(); err == nil && strings.HasPrefix(name, "ksoftirqd/") {
			ids = append(ids, strconv.Itoa(p.PID))
		}
	}
	return ids
})

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
		round.Add(float64(received)/took.Seconds()/1000, p.name, small)
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
	round.Add(measure.PercentileOf(times, 50), p.name, pingPong)
}
