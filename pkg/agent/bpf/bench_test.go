//go:build linux && kernel

package bpf

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netns"
)

// stream sends b.N MiB over one connection.
func stream(b *testing.B, from, to netns.NsHandle, ip netip.Addr) {
	var server net.Listener
	var client net.Conn
	must(b, in(to, func() (err error) { server, err = net.Listen("tcp", ":9"); return err }))
	defer server.Close()
	received := make(chan error, 1)
	go func() {
		conn, err := server.Accept()
		if err == nil {
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 1<<20))
		}
		received <- err
	}()
	must(b, in(from, func() (err error) {
		client, err = net.Dial("tcp", netip.AddrPortFrom(ip, 9).String())
		return err
	}))
	chunk := make([]byte, 1<<20)
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, err := client.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	must(b, client.Close())
	must(b, <-received)
}

// echo sends b.N small packets there and back.
func echo(b *testing.B, from, to netns.NsHandle, ip netip.Addr) {
	var server net.PacketConn
	var client net.Conn
	must(b, in(to, func() (err error) { server, err = net.ListenPacket("udp", ":9"); return err }))
	defer server.Close()
	go func() {
		buffer := make([]byte, 64)
		for {
			n, peer, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buffer[:n], peer)
		}
	}()
	must(b, in(from, func() (err error) {
		client, err = net.Dial("udp", netip.AddrPortFrom(ip, 9).String())
		return err
	}))
	defer client.Close()
	buffer := make([]byte, 22) // 64 bytes with the headers
	for b.Loop() {
		if _, err := client.Write(buffer); err != nil {
			b.Fatal(err)
		}
		if _, err := client.Read(buffer); err != nil {
			b.Fatal(err)
		}
	}
}

// The wire between two nodes, and pods behind it, in the same run.
func BenchmarkPath(b *testing.B) {
	for _, tt := range []struct {
		name string
		run  func(b *testing.B, from, to netns.NsHandle, ip netip.Addr)
	}{{"stream", stream}, {"echo", echo}} {
		l := newLab(b, false)
		l6 := newLab(b, false)
		p, q, same := l.nodes[0].pod("p", blue, "192.168.0.2"), l.nodes[1].pod("q", blue, "192.168.0.3"), l.nodes[0].pod("s", blue, "192.168.0.4")
		p6, q6 := l6.nodes[0].pod("p", blue6, "fd12::2"), l6.nodes[1].pod("q", blue6, "fd12::3")
		b.Run(tt.name+"/wire", func(b *testing.B) { tt.run(b, l.nodes[0].ns, l.nodes[1].ns, l.nodes[1].ip) })
		b.Run(tt.name+"/pods", func(b *testing.B) { tt.run(b, p.ns, q.ns, q.ip) })
		b.Run(tt.name+"/podsIPv6", func(b *testing.B) { tt.run(b, p6.ns, q6.ns, q6.ip) })
		b.Run(tt.name+"/oneNode", func(b *testing.B) { tt.run(b, p.ns, same.ns, same.ip) })
	}
}
