//go:build linux && kernel

package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/ipam"
)

// Equal connections of two Networks stay separate, inside the Networks and to the outside,
// even if the nodes drop packets that conntrack cannot understand. Conntrack of a node follows
// neither connections between pods nor VXLAN: each connection has its own source port there.
func TestSame5Tuple(t *testing.T) { eachFamily(t, same5Tuple) }

func same5Tuple(t *testing.T, f family) {
	l, blue, green := f.twoByTwo(t)
	l.echo("world", "world")
	for _, n := range l.nodes {
		l.in(n.name, dropInvalid)
	}
	var conns []net.Conn
	for i, to := range []netip.Addr{blue[1].ip, f.world()} {
		for _, p := range []*labPod{blue[0], green[0]} {
			conn, err := l.dial(p.name, "tcp", netip.AddrPortFrom(to, 7).String(), &net.TCPAddr{IP: p.ip.AsSlice(), Port: 40000 + i})
			if err != nil {
				t.Fatalf("%s to %s: %v", p.name, to, err)
			}
			conns = append(conns, conn)
		}
	}
	// If two connections were tracked as one, it would depend on their sequence numbers which
	// one breaks, and when. So the test checks which packets are tracked.
	for _, n := range l.nodes {
		file := n.tracked()
		tracked := func(from netip.Addr) bool { return strings.Contains(file, "src="+from.StringExpanded()+" ") }
		if tracked(blue[0].ip) || tracked(blue[1].ip) || strings.Contains(file, "dport=4789") || n == l.nodes[0] && !tracked(blue[0].transit()) {
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

// A packet of 1450 bytes passes between nodes with an MTU of 1500 without fragments. A packet
// of 1451 bytes does not, even if the MTUs of the pod's interface and its port allow it.
func TestMTU(t *testing.T) { eachFamily(t, mtu) }

func mtu(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	headers, level, option, dont := 28, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if f.cidr.Addr().Is6() {
		headers, level, option, dont = 48, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	size := func(mtu int) string {
		conn, err := l.dial(blue[0].name, "udp", netip.AddrPortFrom(blue[1].ip, 7).String(), nil)
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
		for i, p := range blue {
			l.setMTU(p.name, "net1", tt.podMTU)
			l.setMTU(l.nodes[i].name, p.attachment().HostInterface(), tt.portMTU)
		}
		if got := size(tt.size); got != tt.want {
			t.Errorf("%d bytes from an interface of %d by a port of %d: %s, want: %s", tt.size, tt.podMTU, tt.portMTU, got, tt.want)
		}
	}
	if l.nodes[0].drops("oversized") == 0 {
		t.Error("nothing was counted")
	}
}

func (l *lab) setMTU(namespace, dev string, mtu int) {
	l.Helper()
	l.in(namespace, func() error {
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, mtu)
	})
}

// Packets of a pod without a known receiver never leave the node: no broadcast, no multicast,
// and no frame for a MAC address that no pod has. A packet for a pod is sent to the pod's
// node, with the VNI of its Network.
func TestNothingIsFlooded(t *testing.T) { eachFamily(t, nothingIsFlooded) }

func nothingIsFlooded(t *testing.T, f family) {
	l, blue, green := f.twoByTwo(t)
	wire := l.capture("wire", "w-node1")
	from := blue[0]
	unknown := f.pod(200)
	from.reaches(unknown, "") // asks several times for its MAC address, by broadcast or multicast
	if from.ip.Is4() {
		l.frame(from.name, "net1", everybody, from.mac, unix.ETH_P_ARP, arp(from.mac, from.ip))
	}
	nobody, err := dataplane.ParseMAC(ipam.MAC(unknown))
	must(t, err)
	for _, to := range []dataplane.MAC{everybody, {0x01, 0, 0x5e, 0, 0, 1}, {0x33, 0x33, 0, 0, 0, 1}, nobody} {
		l.frame(from.name, "net1", to, from.mac, f.etherType, f.packet(from.ip, unknown))
	}
	from.reaches(blue[1].ip, blue[1].name)
	green[0].reaches(green[1].ip, green[1].name)
	frames := inner(wire())
	slices.Sort(frames)
	var want []string
	for _, vni := range []int{blueVNI, greenVNI} {
		for _, p := range blue { // green has the same addresses
			want = append(want, fmt.Sprintf("%d %s %#04x", vni, p.mac, f.etherType))
		}
	}
	if got := slices.Compact(frames); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("on the wire:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
