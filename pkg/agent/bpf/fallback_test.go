//go:build linux && kernel

package bpf

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// One stream of an IPv4 and an IPv6 Network by the wire between their nodes, on three pairs of nodes. On the third, no
// program takes packets from the wire, so the VXLAN device does, as with IPv6 before Linux 6.4. Each iteration measures
// all paths, one shortly after the other, so other work of the machine affects all of them. `make bench-kernels` runs it.
func BenchmarkFallback(b *testing.B) {
	const each = 300 * time.Millisecond
	var paths []*flow
	add := func(name string, from, to netns.NsHandle, ip netip.Addr) {
		paths = append(paths, newFlow(b, name, from, to, ip))
	}
	for _, tt := range []struct {
		name    string
		network testNetwork
		ips     [2]string
		detach  bool
	}{{"IPv4", blue, [2]string{"192.168.0.2", "192.168.0.3"}, false}, {"IPv6", blue6, [2]string{"fd12::2", "fd12::3"}, false}, {"IPv6-by-device", blue6, [2]string{"fd12::2", "fd12::3"}, true}} {
		l := newLab(b, false)
		if paths == nil {
			add("wire", l.nodes[0].ns, l.nodes[1].ns, l.nodes[1].ip)
		}
		p, q := l.nodes[0].pod("p", tt.network, tt.ips[0]), l.nodes[1].pod("q", tt.network, tt.ips[1])
		for _, n := range l.nodes {
			if tt.detach {
				must(b, in(n.ns, func() error { _, err := Detach(int(n.eth)); return err }))
			}
		}
		add(tt.name, p.ns, q.ns, q.ip)
	}
	ratios := map[string][]float64{}
	for b.Loop() {
		speed := map[string]float64{}
		for _, p := range paths {
			speed[p.name] = p.speed(b, each)
		}
		for _, p := range paths[1:] {
			ratios[p.name] = append(ratios[p.name], speed[p.name]/speed["wire"])
		}
		slices.Reverse(paths[1:])
	}
	b.ReportMetric(0, "ns/op") // not printed
	for name, r := range ratios {
		slices.Sort(r)
		b.ReportMetric(r[len(r)/2], name)
		b.ReportMetric(r[len(r)/4], name+"-q1")
		b.ReportMetric(r[len(r)*3/4], name+"-q3")
	}
}

// flow is a connection that is open for the whole benchmark.
type flow struct {
	name     string
	client   net.Conn
	received atomic.Int64
}

func newFlow(b *testing.B, name string, from, to netns.NsHandle, ip netip.Addr) *flow {
	b.Helper()
	f := &flow{name: name}
	var server net.Listener
	must(b, in(to, func() (err error) { server, err = net.Listen("tcp", netip.AddrPortFrom(ip, 9).String()); return err }))
	must(b, in(from, func() (err error) { f.client, err = net.Dial("tcp", server.Addr().String()); return err }))
	conn, err := server.Accept()
	must(b, err)
	b.Cleanup(func() { _ = f.client.Close(); _ = conn.Close(); _ = server.Close() })
	go func() { _, _ = io.CopyBuffer(f, struct{ io.Reader }{conn}, make([]byte, 256<<10)) }()
	return f
}

// Write counts received bytes.
func (f *flow) Write(p []byte) (int, error) {
	f.received.Add(int64(len(p)))
	return len(p), nil
}

// speed in bytes for each second.
func (f *flow) speed(b *testing.B, d time.Duration) float64 {
	chunk, begin, before := make([]byte, 128<<10), time.Now(), f.received.Load()
	must(b, f.client.SetWriteDeadline(begin.Add(10*time.Second+d)))
	for time.Since(begin) < d {
		if _, err := f.client.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	return float64(f.received.Load()-before) / time.Since(begin).Seconds()
}
