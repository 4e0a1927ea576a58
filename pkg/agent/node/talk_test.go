//go:build linux && kernel

package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An answer that must come gets patience. One that must not come gets silence, which is
// shorter because the test always waits that long.
const (
	patience = 5 * time.Second
	silence  = 400 * time.Millisecond
)

// echo answers on port 7 of a namespace with its name and the sender's address. Over UDP it
// also sends the request back.
func (l *lab) echo(namespace, name string) {
	l.Helper()
	l.in(namespace, func() error {
		udp, err := net.ListenPacket("udp", ":7")
		if err != nil {
			return err
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
			return err
		}
		l.Cleanup(func() { _ = tcp.Close() })
		go func() {
			for {
				conn, err := tcp.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
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
		return nil
	})
}

func host(a net.Addr) string {
	h, _, _ := net.SplitHostPort(a.String())
	return h
}

// dial from a namespace; the connection stays there.
func (l *lab) dial(namespace, network, to string, local net.Addr) (conn net.Conn, err error) {
	err = in(l.namespaces[namespace], func() error {
		conn, err = (&net.Dialer{Timeout: 2 * time.Second, LocalAddr: local}).Dial(network, to)
		return err
	})
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

// sendAs sends a packet from an address that the namespace does not have.
func (l *lab) sendAs(namespace string, from, to netip.AddrPort) {
	l.Helper()
	level, option := unix.SOL_IP, unix.IP_TRANSPARENT
	if from.Addr().Is6() {
		level, option = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(from), Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		err2 := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) })
		return errors.Join(err, err2)
	}}
	l.in(namespace, func() error {
		conn, err := dialer.Dial("udp", to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("?"))
		if errors.Is(err, unix.EPERM) {
			return nil // the node's filter dropped it
		}
		return err
	})
}

// connects returns the name of the host that answers over TCP, which may come from any of its
// addresses; "" if no host answers.
func (l *lab) connects(from string, ip netip.Addr) string {
	l.Helper()
	conn, err := l.dial(from, "tcp", netip.AddrPortFrom(ip, 7).String(), nil)
	if err != nil {
		return ""
	}
	_, err = conn.Write([]byte("?"))
	must(l, err)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 100)
	size, err := conn.Read(b)
	must(l, err)
	name, _, _ := strings.Cut(string(b[:size]), " ")
	return name
}

func expectEcho(t testing.TB, conn net.Conn, want string) {
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

// reaches expects the host with this name to answer at an address; "" expects none.
func (p *labPod) reaches(ip netip.Addr, name string) {
	p.Helper()
	wait := patience
	if name == "" {
		wait = silence
	}
	got, _, _ := strings.Cut(p.answer(p.name, ip, wait), " ")
	if got != name {
		p.Errorf("from %s at %s answers %q, not %q; drops: %v", p.name, ip, got, name, p.allDrops())
	}
}

// pings says whether an address answers an ICMP echo within patience.
func (p *labPod) pings(to netip.Addr, patience time.Duration) bool {
	p.Helper()
	protocol, request, reply := "ip4:icmp", []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}, byte(0)
	if to.Is6() { // the kernel makes the checksum
		protocol, request, reply = "ip6:ipv6-icmp", []byte{128, 0, 0, 0, 0, 1, 0, 1}, 129
	}
	conn, err := p.dial(p.name, protocol, to.String(), nil)
	must(p, err)
	b := make([]byte, 1<<10)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		_, _ = conn.Write(request)
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for err = nil; err == nil; {
			if _, _, err = conn.(*net.IPConn).ReadFrom(b); err == nil && b[0] == reply {
				return true
			}
		}
	}
	return false
}

// drops of a reason in the programs of a node.
func (n *labNode) drops(reason string) (count uint64) {
	n.Helper()
	all, err := n.node.Drops()
	must(n, err)
	for d, c := range all {
		if d.Reason == reason {
			count += c
		}
	}
	return count
}

// filtered counts the packets that rules of the node with that comment dropped.
func (n *labNode) filtered(reason string) uint64 {
	n.Helper()
	var all map[string]uint64
	n.in(n.name, func() (err error) { all, err = n.kernel.Drops(); return err })
	return all[reason]
}

// allDrops of all nodes, for messages.
func (l *lab) allDrops() string {
	var text strings.Builder
	for _, n := range l.nodes {
		programs, err := n.node.Drops()
		var rules map[string]uint64
		err2 := in(l.namespaces[n.name], func() (err error) { rules, err = n.kernel.Drops(); return err })
		fmt.Fprintln(&text, n.name, programs, rules, errors.Join(err, err2))
	}
	return text.String()
}

// more waits until a count is higher than before, and returns by how much.
func more(before uint64, count func() uint64) uint64 {
	for end := time.Now().Add(patience); count() == before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return count() - before
}

// prefix of the pod's interface.
func (p *labPod) prefix() netip.Prefix { return netip.PrefixFrom(p.ip, p.network.CIDR.Bits()) }
