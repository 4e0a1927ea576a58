//go:build linux && kernel

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Equal connections of two Networks stay separate, inside the Networks and to the outside.
// This holds even if bridged packets pass the node's conntrack and a rule drops invalid
// packets (pitfall 4).
func TestSame5Tuple(t *testing.T) { eachFamily(t, same5Tuple) }

func same5Tuple(t *testing.T, f family) {
	c, blue, green := f.twoByTwo(t)
	c.echo("world", "world")
	for _, n := range c.nodes {
		var err error
		c.in(n.name, func() { err = dropInvalid() })
		must(t, err)
	}
	var conns []net.Conn
	for i, to := range []netip.Addr{blue[1].ip, f.world()} {
		for _, p := range []*pod{blue[0], green[0]} {
			conn, err := c.dial(p.name, "tcp", netip.AddrPortFrom(to, 7).String(), &net.TCPAddr{IP: p.ip.AsSlice(), Port: 40000 + i})
			if err != nil {
				t.Fatalf("%s to %s: %v", p.name, to, err)
			}
			conns = append(conns, conn)
		}
	}
	// If two connections were tracked as one, it would depend on their sequence numbers which
	// one breaks, and when. So the test checks that no bridged connection is tracked.
	for _, n := range c.nodes {
		file := n.tracked()
		tracked := func(from netip.Addr) bool { return strings.Contains(file, "src="+from.StringExpanded()+" ") }
		if tracked(blue[0].ip) || tracked(blue[1].ip) || n == c.nodes[0] && !tracked(f.far) {
			t.Errorf("%s tracks\n%s", n.name, file)
		}
	}
	pod, node := blue[0].ip.String(), f.node(1).String()
	for range 3 {
		for i, want := range []string{"blue2 " + pod, "green2 " + pod, "world " + node, "world " + node} {
			expectEcho(t, conns[i], want)
		}
	}
}

func dropInvalid() error {
	for _, name := range []string{"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"} {
		if err := setSysctl(dataplane.Sysctl{Name: name, Value: "1"}); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "others"})
	chain := conn.AddChain(&nftables.Chain{Name: "forward", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter})
	invalid := binary.NativeEndian.AppendUint32(nil, expr.CtStateBitINVALID)
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1}, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: invalid, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}, &expr.Verdict{Kind: expr.VerdictDrop}}})
	return conn.Flush()
}

// A packet of 1450 bytes passes between nodes with an MTU of 1500 without fragments. A packet
// of 1451 bytes does not, even if the MTUs of the pod's interface and its port allow it.
func TestMTU(t *testing.T) { eachFamily(t, mtu) }

func mtu(t *testing.T, f family) {
	c, blue, _ := f.twoByTwo(t)
	headers, level, option, dont := 28, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if f.cidr.Addr().Is6() {
		headers, level, option, dont = 48, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	size := func(mtu int) string {
		conn, err := c.dial(blue[0].name, "udp", netip.AddrPortFrom(blue[1].ip, 7).String(), nil)
		must(t, err)
		raw, err := conn.(*net.UDPConn).SyscallConn()
		must(t, err)
		must(t, raw.Control(func(fd uintptr) {
			if err := unix.SetsockoptInt(int(fd), level, option, dont); err != nil {
				t.Error(err)
			}
		}))
		payload := make([]byte, mtu-headers)
		for range 3 {
			if _, err := conn.Write(payload); err != nil {
				if errors.Is(err, syscall.EMSGSIZE) {
					return "message too long"
				}
				return err.Error()
			}
			b := make([]byte, 1<<16)
			_ = conn.SetReadDeadline(time.Now().Add(silence))
			if n, err := conn.Read(b); err == nil {
				return fmt.Sprintf("%d bytes came back", n+headers)
			}
		}
		return "nothing came back"
	}
	blue[0].reaches(blue[1].ip, "blue2")
	for _, tt := range []struct {
		podMTU, portMTU, size int
		want                  string
	}{{1450, 1450, 1450, "1450 bytes came back"}, {1450, 1450, 1451, "message too long"}, {1500, 1450, 1451, "nothing came back"}, {1500, 1500, 1451, "nothing came back"}} {
		set := func(namespace, dev string, mtu int) {
			c.in(namespace, func() {
				l, err := netlink.LinkByName(dev)
				if err == nil {
					err = netlink.LinkSetMTU(l, mtu)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		for i, p := range blue {
			set(p.name, "net1", tt.podMTU)
			set(c.nodes[i].name, "veth"+p.name, tt.portMTU)
		}
		if p := c.nodes[0].decide(c.nodes[0].kernel); len(p) > 0 {
			t.Errorf("to be done:\n%s", p)
		}
		if got := size(tt.size); got != tt.want {
			t.Errorf("%d bytes from an interface of %d by a port of %d: %s, want: %s", tt.size, tt.podMTU, tt.portMTU, got, tt.want)
		}
	}
}

// pings says whether the address answers an ICMP echo.
func (p *pod) pings(to string) bool {
	p.Helper()
	conn, err := p.dial(p.name, "ip4:icmp", to, nil)
	must(p, err)
	_, err = conn.Write([]byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1})
	must(p, err)
	_ = conn.SetReadDeadline(time.Now().Add(silence))
	_, err = conn.Read(make([]byte, 100))
	return err == nil
}

// Two routers share a node, but packets do not pass from one to the other.
func TestNoWayToOtherRouters(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	const own, other = "100.64.0.1", "100.64.0.3"
	if !blue[0].pings(own) {
		t.Fatal("no router answers")
	}
	if blue[0].pings(other) {
		t.Error("green's router answers")
	}
	if got := c.nodes[0].drops("network"); got != 1 {
		t.Errorf("%d packets were dropped", got)
	}
}

// A pod on a node that is cut off has lost its identity to another pod. It gets no packets
// that are sent to that address, and no answers.
func TestStrayPodGetsNothing(t *testing.T) {
	c := newCluster(t, 3)
	blue := c.network("blue", 1001, "192.168.0.0/16")
	stray, peer := c.nodes[0].pod("stray", blue, "192.168.0.2"), c.nodes[1].pod("peer", blue, "192.168.0.3")
	c.nodes[0].attach(stray)
	c.nodes[1].attach(peer)
	c.sync()
	peer.reaches(stray.ip, "stray")
	c.state.Pods = c.state.Pods[1:] // the API server has removed it, and node1 does not know
	c.nodes[2].attach(c.nodes[2].pod("heir", blue, "192.168.0.2"))
	for _, n := range c.nodes[1:] {
		n.sync()
	}
	peer.reaches(stray.ip, "heir")
	stray.reaches(peer.ip, "")
}
