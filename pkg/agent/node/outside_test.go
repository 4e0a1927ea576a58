//go:build linux && kernel

package node

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The whole way to the outside translates ping, large UDP packets in fragments, and TCP in packets of both MTUs. The
// kernel makes checksums late or never on virtual interfaces. So the test then lets it make them before the packet
// leaves the node, and before it leaves the pod: the receiver checks those.
func TestOutside(t *testing.T) { eachFamily(t, outside) }

func outside(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	l.echo("world", "world")
	l.talk(blue[0], f)
	l.checksums("node1", "eth0")
	l.checksums("world", "eth0")
	l.talk(blue[0], f)
	l.checksums("blue1", "net1")
	l.talk(blue[0], f)
}

// checksums are complete in each packet that leaves by the interface: ethtool -K DEV tx off
func (l *lab) checksums(namespace, dev string) {
	l.Helper()
	l.in(namespace, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		value := struct{ command, on uint32 }{command: unix.ETHTOOL_STXCSUM}
		request := struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&value)}
		copy(request.name[:], dev)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return errno
		}
		return nil
	})
}

// talk of a pod with the world, in packets of all kinds.
func (l *lab) talk(p *labPod, f family) {
	t := l.TB
	t.Helper()
	if got := p.echoes(f.world(), 60000); got != 60000 {
		t.Errorf("ping: %d of 60000 bytes came back", got)
	}
	conn, err := l.dial(p.name, "udp", netip.AddrPortFrom(f.world(), 7).String(), nil)
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	for range 3 {
		_, err = conn.Write(make([]byte, 20000))
		must(t, err)
		b := make([]byte, 1<<16)
		n, err := conn.Read(b)
		if must(t, err); n != 20000 {
			t.Errorf("UDP: %d of 20000 bytes came back", n)
		}
		_, err = conn.Read(b)
		must(t, err)
	}
	l.bulk(p.name, "world", f.world())
	if l.nodes[0].drops("oversized")+l.nodes[0].drops("failed")+l.nodes[0].drops("truncated") > 0 {
		t.Error(l.allDrops())
	}
}

// bulk sends some megabytes over TCP, and gets them back.
func (l *lab) bulk(from, to string, ip netip.Addr) {
	l.Helper()
	l.in(to, func() error {
		listener, err := net.Listen("tcp", ":9")
		if err != nil {
			return err
		}
		go func() {
			conn, err := listener.Accept()
			_ = listener.Close()
			if err != nil {
				return
			}
			defer conn.Close()
			b := make([]byte, 1<<16)
			for {
				n, err := conn.Read(b)
				if err != nil {
					return
				}
				if _, err := conn.Write(b[:n]); err != nil {
					return
				}
			}
		}()
		return nil
	})
	conn, err := l.dial(from, "tcp", netip.AddrPortFrom(ip, 9).String(), nil)
	must(l, err)
	const size = 8 << 20
	go func() { _, _ = conn.Write(make([]byte, size)) }()
	got, b := 0, make([]byte, 1<<16)
	for got < size {
		must(l, conn.SetReadDeadline(time.Now().Add(patience))) // a slow machine needs longer for all
		n, err := conn.Read(b)
		if err != nil {
			l.Fatalf("after %d bytes: %v", got, err)
		}
		got += n
	}
}

// A router outside has a smaller MTU. Its ICMP error reaches the pod, and quotes a packet with the pod's address: so
// the pod's kernel believes it, and sends smaller packets.
func TestPathMTU(t *testing.T) { eachFamily(t, pathMTU) }

func pathMTU(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	l.namespace("behind")
	far := ending(netip.MustParsePrefix("10.77.0.0/24"), 2)
	if f.cidr.Addr().Is6() {
		far = ending(netip.MustParsePrefix("fd77::/64"), 2)
	}
	bits := map[bool]int{true: 24, false: 64}[far.Is4()]
	near := ending(netip.PrefixFrom(far, bits).Masked(), 1)
	l.in("world", func() error {
		for _, s := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
			if err := setSysctl(s, "1"); err != nil {
				return err
			}
		}
		if err := addUp(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "narrow", MTU: 1300}, PeerName: "eth0", PeerMTU: 1300, PeerNamespace: netlink.NsFd(l.namespaces["behind"])}); err != nil {
			return err
		}
		return addressOn("narrow", netip.PrefixFrom(near, bits))
	})
	l.in("behind", func() error {
		if err := addressOn("eth0", netip.PrefixFrom(far, bits)); err != nil {
			return err
		}
		return up("eth0")
	})
	everything := netip.PrefixFrom(f.wire.Addr(), f.wire.Bits())
	l.route("behind", "eth0", everything, near)
	l.route("node1", "eth0", netip.PrefixFrom(far, bits).Masked(), f.world())
	l.echo("behind", "behind")
	blue[0].reaches(far, "behind")
	conn, err := l.dial(blue[0].name, "udp", netip.AddrPortFrom(far, 7).String(), nil)
	must(t, err)
	raw, err := conn.(*net.UDPConn).SyscallConn()
	must(t, err)
	option := func(v4, v6 int) (level, option int) {
		if far.Is4() {
			return unix.IPPROTO_IP, v4
		}
		return unix.IPPROTO_IPV6, v6
	}
	must(t, raw.Control(func(fd uintptr) {
		level, discover := option(unix.IP_MTU_DISCOVER, unix.IPV6_MTU_DISCOVER)
		must(t, unix.SetsockoptInt(int(fd), level, discover, unix.IP_PMTUDISC_DO))
	}))
	mtu := func() (is int) {
		must(t, raw.Control(func(fd uintptr) {
			level, mtu := option(unix.IP_MTU, unix.IPV6_MTU)
			is, err = unix.GetsockoptInt(int(fd), level, mtu)
			must(t, err)
		}))
		return is
	}
	if got := mtu(); got != 1450 {
		t.Errorf("the path has an MTU of %d at first", got)
	}
	_, err = conn.Write(make([]byte, 1350))
	must(t, err)
	for end := time.Now().Add(patience); mtu() != 1300 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := mtu(); got != 1300 {
		t.Errorf("the path has an MTU of %d", got)
	}
}

// The node leads to the outside by a smaller MTU than that of the Network. Its ICMP errors do not reach pods, and its
// interface loses larger packets that arrive.
func TestNarrowWayOut(t *testing.T) { eachFamily(t, narrowWayOut) }

func narrowWayOut(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	l.in("node1", func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, 1300)
	})
	l.checksums("world", "eth0") // else larger ones arrive: the segments of one large packet come as one
	l.bulk(blue[0].name, "world", f.world())
}

// A pod refuses a packet by an ICMP error: the host outside believes it.
func TestErrorOfPod(t *testing.T) { eachFamily(t, errorOfPod) }

func errorOfPod(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	var world net.PacketConn
	l.in("world", func() (err error) { world, err = net.ListenPacket("udp", ":70"); return err })
	defer world.Close()
	conn, err := l.dial(blue[0].name, "udp", netip.AddrPortFrom(f.world(), 70).String(), nil)
	must(t, err)
	_, err = conn.Write([]byte("?"))
	must(t, err)
	_, from, err := world.ReadFrom(make([]byte, 10))
	must(t, err)
	must(t, conn.Close())
	must(t, world.Close())
	answer, err := l.dial("world", "udp", from.String(), &net.UDPAddr{Port: 70})
	must(t, err)
	_, err = answer.Write([]byte("!"))
	must(t, err)
	must(t, answer.SetReadDeadline(time.Now().Add(patience)))
	if _, err := answer.Read(make([]byte, 10)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}
