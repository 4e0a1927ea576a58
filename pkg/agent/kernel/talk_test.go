//go:build linux && kernel

package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// echo answers on port 7 of a namespace with its name and the sender's address. Over UDP it
// also sends the request back.
func (c *cluster) echo(namespace, name string) {
	c.Helper()
	c.in(namespace, func() {
		udp, err := net.ListenPacket("udp", ":7")
		if err != nil {
			c.Error(err)
			return
		}
		c.Cleanup(func() { _ = udp.Close() })
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
			c.Error(err)
			return
		}
		c.Cleanup(func() { _ = tcp.Close() })
		go func() {
			for {
				conn, err := tcp.Accept()
				if err != nil {
					return
				}
				c.Cleanup(func() { _ = conn.Close() })
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
func (c *cluster) dial(namespace, network, to string, local net.Addr) (net.Conn, error) {
	var conn net.Conn
	var err error
	c.in(namespace, func() { conn, err = (&net.Dialer{Timeout: 2 * time.Second, LocalAddr: local}).Dial(network, to) })
	if err == nil {
		c.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// answer returns the name of the host that answers at an address, and the source address
// that it saw; "" if no host answers within patience.
func (c *cluster) answer(from string, ip netip.Addr, patience time.Duration) string {
	c.Helper()
	conn, err := c.dial(from, "udp", netip.AddrPortFrom(ip, 7).String(), nil)
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

// connects returns the answer over TCP, which may come from any of a host's addresses; "" if
// no host answers.
func (c *cluster) connects(from string, ip netip.Addr) string {
	c.Helper()
	conn, err := c.dial(from, "tcp", netip.AddrPortFrom(ip, 7).String(), nil)
	if err != nil {
		return ""
	}
	_, err = conn.Write([]byte("?"))
	must(c, err)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 100)
	size, err := conn.Read(b)
	must(c, err)
	name, _, _ := strings.Cut(string(b[:size]), " ")
	return name
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
func (c *cluster) forget(namespace, dev string) (known int) {
	c.Helper()
	c.in(namespace, func() {
		index, err := indexOf(dev)
		if err != nil {
			c.Error(err)
			return
		}
		neighbours, err := netlink.NeighList(index, netlink.FAMILY_ALL)
		if err != nil {
			c.Error(err)
		}
		for i := range neighbours {
			if neighbours[i].State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 {
				continue
			}
			if err := netlink.NeighDel(&neighbours[i]); err != nil && !errors.Is(err, unix.ENOENT) {
				c.Error(err)
			}
			known++
		}
	})
	return known
}

// drops of a reason on a node.
func (n *node) drops(reason string) uint64 {
	n.Helper()
	d, err := n.kernel.Drops()
	must(n, err)
	return d.Reasons[reason]
}

// dropsMore waits until a node has dropped more packets for a reason, and returns how many.
func (n *node) dropsMore(reason string, before uint64) uint64 {
	n.Helper()
	for end := time.Now().Add(patience); n.drops(reason) == before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return n.drops(reason) - before
}
