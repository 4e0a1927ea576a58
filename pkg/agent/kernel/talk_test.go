//go:build linux && kernel

package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// echo answers on port 7 of a namespace with its name and the sender's address. Over UDP it
// also sends the request back.
func (l *lab) echo(namespace, name string) {
	l.Helper()
	l.in(namespace, func() {
		udp, err := net.ListenPacket("udp", ":7")
		if err != nil {
			l.Error(err)
			return
		}
		l.Cleanup(func() { _ = udp.Close() })
		go func() {
			b := make([]byte, 1<<16)
			for {
				size, from, err := udp.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = udp.WriteTo(b[:size], from)
				_, _ = udp.WriteTo(fmt.Appendf(nil, "%s %s", name, host(from)), from)
			}
		}()
		tcp, err := net.Listen("tcp", ":7")
		if err != nil {
			l.Error(err)
			return
		}
		l.Cleanup(func() { _ = tcp.Close() })
		go func() {
			for {
				conn, err := tcp.Accept()
				if err != nil {
					return
				}
				l.Cleanup(func() { _ = conn.Close() })
				go func() {
					b := make([]byte, 1<<16)
					for {
						if _, err := conn.Read(b); err != nil {
							return
						}
						_, _ = fmt.Fprintf(conn, "%s %s", name, host(conn.RemoteAddr()))
					}
				}()
			}
		}()
	})
}

func host(a net.Addr) string {
	h, _, _ := net.SplitHostPort(a.String())
	return h
}

// dial from a namespace; the connection stays there.
func (l *lab) dial(namespace, network, to string, local net.Addr) (net.Conn, error) {
	var conn net.Conn
	var err error
	l.in(namespace, func() { conn, err = (&net.Dialer{Timeout: 2 * time.Second, LocalAddr: local}).Dial(network, to) })
	if err == nil {
		l.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// answer returns the name of the host that answers at an address, and the source address
// that it saw; "" if no host answers within patience.
func (l *lab) answer(from string, ip netip.Addr, patience time.Duration) string {
	l.Helper()
	conn, err := l.dial(from, "udp", netip.AddrPortFrom(ip, 7).String(), nil)
	if err != nil {
		return ""
	}
	b := make([]byte, 1<<16)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		_, _ = conn.Write([]byte("?"))
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for {
			size, err := conn.Read(b)
			if err != nil {
				break
			}
			if reply := string(b[:size]); reply != "?" {
				return reply
			}
		}
	}
	return ""
}

// An answer that must come gets patience. One that must not come gets silence, which is
// shorter because the test always waits that long.
const (
	patience = 3 * time.Second
	silence  = 400 * time.Millisecond
)

// reaches expects the pod with this name to answer at an address.
func (p *pod) reaches(ip netip.Addr, name string) {
	p.Helper()
	wait := patience
	if name == "" {
		wait = silence
	}
	got, _, _ := strings.Cut(p.answer(p.name, ip, wait), " ")
	if got != name {
		p.Errorf("from %s at %s answers %q, not %q", p.name, ip, got, name)
	}
}

// forget all neighbours on an interface of a namespace except permanent ones, and return
// how many there were.
func (l *lab) forget(namespace, dev string) (known int) {
	l.Helper()
	l.in(namespace, func() {
		index, err := indexOf(dev)
		if err != nil {
			l.Error(err)
			return
		}
		neighbours, err := netlink.NeighList(index, netlink.FAMILY_ALL)
		if err != nil {
			l.Error(err)
		}
		for i := range neighbours {
			if neighbours[i].State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 {
				continue
			}
			if err := netlink.NeighDel(&neighbours[i]); err != nil && !errors.Is(err, unix.ENOENT) {
				l.Error(err)
			}
			known++
		}
	})
	return known
}

func expectEcho(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	b := make([]byte, 100)
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, err := conn.Write([]byte("?"))
	n := 0
	if err == nil {
		n, err = conn.Read(b)
	}
	if got := string(b[:n]); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
