//go:build linux && kernel

package kernel

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/ipam"
)

// capture frames that pass an interface of a namespace from now on. The returned function
// ends the capture and returns the frames.
func (c *cluster) capture(namespace, dev string) func() [][]byte {
	c.Helper()
	fd := -1
	c.in(namespace, func() {
		index, err := indexOf(dev)
		if err == nil {
			fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		}
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: index}) // ETH_P_ALL, in network byte order
		}
		if err != nil {
			c.Errorf("capture on %s: %v", dev, err)
		}
	})
	return func() [][]byte {
		defer unix.Close(fd)
		var frames [][]byte
		b := make([]byte, 1<<16)
		for {
			n, _, err := unix.Recvfrom(fd, b, 0)
			if err != nil {
				return frames // no frames are left
			}
			frames = append(frames, slices.Clone(b[:n]))
		}
	}
}

// inner frames of VXLAN packets over IPv4, each as "vni destination type".
func inner(frames [][]byte) []string {
	var list []string
	for _, f := range frames {
		const udp = 14 + 20
		if len(f) < udp+8+8+14 || binary.BigEndian.Uint16(f[12:]) != unix.ETH_P_IP || f[14+9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(f[udp+2:]) != 4789 {
			continue
		}
		vxlan := f[udp+8:]
		list = append(list, fmt.Sprintf("%d %s %#04x", binary.BigEndian.Uint32(vxlan[4:])>>8, net.HardwareAddr(vxlan[8:14]), binary.BigEndian.Uint16(vxlan[20:])))
	}
	return list
}

// Packets of a pod without a known receiver never leave the node: no broadcast, no multicast,
// and no frame for a MAC address that no pod has. A packet for a pod is sent to the pod's
// node, with the VNI of its Network.
func TestNothingIsFlooded(t *testing.T) { eachFamily(t, nothingIsFlooded) }

func nothingIsFlooded(t *testing.T, f family) {
	c, blue, green := f.twoByTwo(t)
	wire := c.capture("wire", "w-node1")
	from := blue[0]
	unknown := f.pod(200)
	from.reaches(unknown, "") // asks several times for its MAC address, by broadcast or multicast
	if from.ip.Is4() {
		c.frame(from.name, "net1", everybody, from.mac, unix.ETH_P_ARP, arp(from.mac, from.ip))
	}
	nobody, err := dataplane.ParseMAC(ipam.MAC(unknown))
	must(t, err)
	for _, to := range []dataplane.MAC{everybody, {0x01, 0, 0x5e, 0, 0, 1}, {0x33, 0x33, 0, 0, 0, 1}, nobody} {
		c.frame(from.name, "net1", to, from.mac, f.etherType, f.packet(from.ip, unknown))
	}
	from.reaches(blue[1].ip, blue[1].name)
	green[0].reaches(green[1].ip, green[1].name)
	frames := inner(wire())
	slices.Sort(frames)
	var want []string
	for _, vni := range []int{1001, 1002} {
		for _, p := range blue { // green has the same addresses
			want = append(want, fmt.Sprintf("%d %s %#04x", vni, p.mac, f.etherType))
		}
	}
	if got := slices.Compact(frames); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("on the wire:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// mss is the option of the first TCP segment that opens a connection to or from the port;
// 0 if there is none.
func mss(frames [][]byte, port uint16) uint16 {
	for _, f := range frames {
		tcp, protocol := 14+20, 14+9
		if binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_IPV6 {
			tcp, protocol = 14+40, 14+6
		}
		if len(f) < tcp+20 || !slices.Contains([]uint16{unix.ETH_P_IP, unix.ETH_P_IPV6}, binary.BigEndian.Uint16(f[12:])) || f[protocol] != unix.IPPROTO_TCP || f[tcp+13]&0x02 == 0 ||
			binary.BigEndian.Uint16(f[tcp:]) != port && binary.BigEndian.Uint16(f[tcp+2:]) != port {
			continue
		}
		for options := f[tcp+20 : tcp+int(f[tcp+12]>>4)*4]; len(options) >= 4; {
			switch options[0] {
			case 0:
				return 0
			case 1:
				options = options[1:]
			case 2:
				return binary.BigEndian.Uint16(options[2:])
			default:
				options = options[max(options[1], 2):]
			}
		}
	}
	return 0
}

// The handshake of a connection that leaves a Network limits segments in both directions:
// 1450 less the headers, although both ends have interfaces of 1500.
func TestMSSClamp(t *testing.T) { eachFamily(t, mssClamp) }

func mssClamp(t *testing.T, f family) {
	c, blue, _ := f.twoByTwo(t)
	c.echo("world", "world")
	from := blue[0]
	c.in(from.name, func() {
		l, err := netlink.LinkByName("net1")
		if err == nil {
			err = netlink.LinkSetMTU(l, 1500)
		}
		if err != nil {
			t.Error(err)
		}
	})
	for _, tt := range []struct{ name, namespace, dev string }{{"the pod's, at the world", "world", "eth0"}, {"the world's, at the pod", from.name, "net1"}} {
		capture := c.capture(tt.namespace, tt.dev)
		conn, err := c.dial(from.name, "tcp", netip.AddrPortFrom(f.world(), 7).String(), nil)
		must(t, err)
		expectEcho(t, conn, "world "+f.node(1).String())
		frames := capture()
		if tt.namespace == from.name { // the pod's own SYN is not clamped yet
			frames = slices.DeleteFunc(frames, func(f []byte) bool { return slices.Equal(f[6:12], from.mac[:]) })
		}
		if got := mss(frames, 7); got != 1450-f.headers {
			t.Errorf("%s: MSS %d", tt.name, got)
		}
	}
}

// The router of an IPv6 Network finds a pod by itself. The pod may have learned the gateway
// long ago, and the router may have forgotten the pod.
func TestRouterAsksForNeighbours(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes[0]
	v6 := c.network("v6", 1003, "fd00:10::/64")
	a := n.pod("a", v6, "fd00:10::2")
	n.attach(a)
	c.alsoIPv6()
	c.echo("world", "world")
	c.sync()
	world := ipv6.world()
	a.reaches(world, "world")
	conn, err := c.dial(a.name, "tcp", netip.AddrPortFrom(world, 7).String(), nil)
	must(t, err)
	if known := c.forget("netns-node1/pod2-1003", "lan"); known == 0 {
		t.Error("the router knew no neighbour")
	}
	expectEcho(t, conn, "world fd0a::1")
}
