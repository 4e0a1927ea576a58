//go:build linux && kernel

package node

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// transit address of the pod on its node.
func (p *labPod) transit() netip.Addr {
	p.Helper()
	maps, err := bpf.Open(p.on.bpf)
	must(p, err)
	defer maps.Close()
	ports, err := maps.Ports()
	must(p, err)
	return ports[uint32(p.link().Attrs().Index)].Transit.Addr()
}

func removeTable() error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	c.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: dataplane.TableName})
	return c.Flush()
}

func removeRoute(to netip.Prefix) error {
	link, err := netlink.LinkByName(dataplane.GatewayName)
	if err != nil {
		return err
	}
	route := &netlink.Route{Dst: ipNet(to), LinkIndex: link.Attrs().Index}
	if to.Addr().Is4() {
		route.Scope = netlink.SCOPE_LINK
	}
	return netlink.RouteDel(route)
}

// Pods of two Networks with one CIDR have the same address and port, and talk to one server at once. TestSame5Tuple
// does it over TCP.
func TestOneServerForTwoNetworks(t *testing.T) { eachFamily(t, oneServerForTwoNetworks) }

func oneServerForTwoNetworks(t *testing.T, f family) {
	l, blue, green := f.twoByTwo(t)
	l.echo("world", "world")
	conns := map[string]net.Conn{}
	for _, p := range []*labPod{blue[0], green[0]} {
		conn, err := l.dial(p.name, "udp", netip.AddrPortFrom(f.world(), 7).String(), &net.UDPAddr{Port: 7777})
		must(t, err)
		conns[p.name] = conn
	}
	for name, conn := range conns {
		_, err := conn.Write([]byte("of " + name))
		must(t, err)
	}
	for name, conn := range conns {
		expectRead(t, conn, "of "+name)
	}
}

func expectRead(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	b := make([]byte, 100)
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	n, err := conn.Read(b)
	if got := string(b[:n]); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// The gateway answers ping, with its address and its link-local address, also in fragments. It answers nothing else.
func TestGateway(t *testing.T) { eachFamily(t, gateway) }

func gateway(t *testing.T, f family) {
	_, blue, _ := f.twoByTwo(t)
	p := blue[0]
	if !p.pings(p.network.Gateway, patience) {
		t.Error("the gateway does not answer")
	}
	before := p.on.drops("unknown")
	p.reaches(p.network.Gateway, "")
	if p.on.drops("unknown") == before {
		t.Error("nothing was counted")
	}
	if got := p.echoes(p.network.Gateway, 3000); got != 3000 {
		t.Errorf("%d of 3000 bytes came back", got)
	}
}

// echoes sends an ICMP echo request with that many bytes and returns how many the reply has.
func (p *labPod) echoes(to netip.Addr, size int) (back int) {
	p.Helper()
	protocol, domain, request := unix.IPPROTO_ICMP, unix.AF_INET, byte(8)
	if to.Is6() {
		protocol, domain, request = unix.IPPROTO_ICMPV6, unix.AF_INET6, 128
	}
	p.in(p.name, func() error {
		if err := setSysctl("net.ipv4.ping_group_range", "0 0"); err != nil {
			return err
		}
		fd, err := unix.Socket(domain, unix.SOCK_DGRAM, protocol) // the kernel checks and makes checksums
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var address unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte(to.AsSlice()[:4])}
		if to.Is6() {
			address = &unix.SockaddrInet6{Addr: to.As16()}
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
			return err
		}
		for range 5 {
			if err := unix.Sendto(fd, append([]byte{request, 0, 0, 0, 0, 0, 0, 1}, make([]byte, size)...), 0, address); err != nil {
				return err
			}
			b := make([]byte, 1<<16)
			if n, _, err := unix.Recvfrom(fd, b, 0); err == nil {
				back = n - 8
				return nil
			}
		}
		return nil
	})
	return back
}

// Conntrack does not translate a packet that it cannot follow, such as an echo reply without a request. So it does not
// leave the node.
func TestNothingLeavesWithoutNAT(t *testing.T) { eachFamily(t, nothingLeavesWithoutNAT) }

func nothingLeavesWithoutNAT(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	l.echo("world", "world")
	p, n := blue[0], l.nodes[0]
	p.reaches(f.world(), "world") // the neighbours are known
	reply := f.packet(p.ip, f.world())
	at, protocol, kind := 9, byte(unix.IPPROTO_ICMP), byte(0)
	if f.cidr.Addr().Is6() {
		at, protocol, kind = 6, unix.IPPROTO_ICMPV6, 129
	}
	reply[at], reply[len(reply)-8] = protocol, kind
	if f.cidr.Addr().Is4() {
		reply[5] += unix.IPPROTO_UDP - protocol // the checksum of the header stays right
	}
	heard := l.capture("world", "eth0")
	l.frame(p.name, "net1", dataplane.GatewayMAC(blueVNI), p.mac, f.etherType, reply)
	if got := more(0, func() uint64 { return n.filtered("invalid") }); got != 1 {
		t.Errorf("%d packets were counted", got)
	}
	transit := p.transit().AsSlice()
	for _, frame := range heard() {
		if bytes.Contains(frame, transit) {
			t.Errorf("the world got %x", frame)
		}
	}
}

// No program of the node reaches a pod: neither by a socket, nor by a raw one, with or without tc, on either end of
// the pair.
func TestNoInjectionByGateway(t *testing.T) { eachFamily(t, noInjectionByGateway) }

func noInjectionByGateway(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	p, n := blue[0], l.nodes[0]
	l.echo("world", "world")
	conn, err := l.dial(p.name, "udp", netip.AddrPortFrom(f.world(), 7).String(), nil) // conntrack knows the pod
	must(t, err)
	expectEcho(t, conn, "?")
	_, err = conn.Read(make([]byte, 100)) // it answers twice, and no answer may come while frames are captured
	must(t, err)
	heard := l.capture(p.name, "net1")
	if got := l.answer(n.name, p.transit(), silence); got != "" {
		t.Errorf("%s answers", got)
	}
	before := n.drops("injected")
	for _, dev := range []string{"pod2gw", "pod2gwp"} {
		var peer dataplane.MAC
		other := map[string]string{"pod2gw": "pod2gwp", "pod2gwp": "pod2gw"}[dev]
		copy(peer[:], n.link(other).Attrs().HardwareAddr)
		for _, to := range []dataplane.MAC{peer, dataplane.NodeMAC, p.mac} {
			for _, source := range []netip.Addr{f.world(), p.ip, f.node(1)} {
				for _, destination := range []netip.Addr{p.transit(), p.ip} {
					l.frame(n.name, dev, to, dataplane.NodeMAC, f.etherType, f.packet(source, destination))
					l.frameBypass(n.name, dev, to, dataplane.NodeMAC, f.etherType, f.packet(source, destination))
				}
			}
		}
	}
	if n.drops("injected") == before {
		t.Error("nothing was counted")
	}
	p.reaches(blue[1].ip, "blue2")
	for _, frame := range heard() {
		if slices.Equal(frame[:6], p.mac[:]) && !slices.Equal(frame[6:12], blue[1].mac[:]) && frame[12] == byte(f.etherType>>8) {
			t.Errorf("the pod got %x", frame)
		}
	}
}

// A port has the transit address that an earlier pod had. It gets no answer of that pod's conversation.
func TestTransitAddressIsUsedAgain(t *testing.T) {
	t.Parallel()
	n, _ := onBlueWith(t, netip.MustParsePrefix("100.64.0.0/32"))
	l := n.lab
	old, young := n.pod("old", l.state.Networks[0], "192.168.0.2"), n.pod("young", l.network("green", greenVNI, "192.168.0.0/16"), "192.168.0.2")
	l.attach(old)
	var world net.PacketConn
	l.in("world", func() (err error) { world, err = net.ListenPacket("udp", ":70"); return err })
	defer world.Close()
	conn, err := l.dial(old.name, "udp", "10.9.0.100:70", &net.UDPAddr{Port: 7777})
	must(t, err)
	_, err = conn.Write([]byte("?"))
	must(t, err)
	_, from, err := world.ReadFrom(make([]byte, 10))
	must(t, err)
	was := old.transit()
	n.del(old.attachment())
	young.attach()
	if young.transit() != was {
		t.Fatalf("it has %s", young.transit())
	}
	heard := l.capture(young.name, "net1")
	_, err = world.WriteTo([]byte("for the old one"), from)
	must(t, err)
	if young.pings(young.network.Gateway, patience); strings.Contains(fmt.Sprintf("%s", heard()), "for the old one") {
		t.Error("the young pod got it")
	}
}

// A port has another transit address than its first choice, because that one was taken when it came. After a restart of
// the agent it has the same address, although its first choice is free now.
func TestTransitAddressOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	n, pods := onBlueWith(t, netip.MustParsePrefix("100.64.0.0/31"), "a", "b", "c")
	a, b, c := pods[0], pods[1], pods[2]
	a.attach()
	b.attach()
	first := b.transit()
	n.del(b.attachment())
	c.attach()
	if c.transit() != first {
		t.Fatalf("a has %s and c has %s: the kernel does not count interfaces by one", a.transit(), c.transit())
	}
	n.del(a.attachment())
	n.lose(a)
	n.lose(b)
	n.pods = n.pods[2:]
	n.stop()
	n.start()
	n.sync()
	if got := c.transit(); got != first {
		t.Errorf("it has %s, and had %s", got, first)
	}
}
