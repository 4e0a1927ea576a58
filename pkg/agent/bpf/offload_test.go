//go:build linux && kernel

package bpf

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// receives returns the sizes of the datagrams that a pod receives on UDP port 7: at most count of them, in that time.
func (p *pod) receives(count int, limit time.Duration, send func()) (sizes []int) {
	p.Helper()
	var socket net.PacketConn
	must(p, in(p.ns, func() (err error) { socket, err = net.ListenPacket("udp", ":7"); return err }))
	defer socket.Close()
	send()
	must(p, socket.SetReadDeadline(time.Now().Add(limit)))
	b := make([]byte, 1<<16)
	for len(sizes) < count {
		size, _, err := socket.ReadFrom(b)
		if err != nil {
			break
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// A packet with a wrong checksum does not reach the pod's programs, whether or not the kernel checked
// its outer headers before from_wire (GRO).
func TestWrongChecksum(t *testing.T) {
	for _, gro := range []bool{false, true} {
		l := newLab(t, false)
		a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
		n1, n2 := l.nodes[0], l.nodes[1]
		must(t, in(n1.ns, func() error { _, err := Detach(int(n1.eth)); return err }))
		must(t, setFeature(n1.ns, "eth0", unix.ETHTOOL_STSO, false)) // with it, a veth skips GRO
		must(t, setFeature(n2.ns, "eth0", unix.ETHTOOL_SGRO, gro))
		packet := append(udp4(a.ip, c.ip), make([]byte, 40)...)
		binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
		binary.BigEndian.PutUint16(packet[24:], uint16(len(packet)-20))
		setChecksum(packet)
		for _, wrong := range []bool{false, true} {
			if wrong {
				packet[26], packet[27] = 0x12, 0x34
			}
			out := frame(n2.mac(), n1.mac(), unix.ETH_P_IP, vxlan(n1.ip, n2.ip, blue.vni, frame(c.mac, a.mac, unix.ETH_P_IP, packet...))...)
			if got := c.receives(1, 400*time.Millisecond, func() { must(t, send(n1.ns, "eth0", out)) }); (len(got) == 0) != wrong {
				t.Errorf("GRO %v, wrong checksum %v: the pod receives %v; drops: %s", gro, wrong, got, n2.drops())
			}
		}
	}
}

// setFeature of an interface by an ioctl of ethtool.
func setFeature(ns netns.NsHandle, dev string, command uint32, on bool) error {
	return in(ns, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		value := struct{ command, data uint32 }{command: command}
		if on {
			value.data = 1
		}
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

// A TCP segment whose checksum the kernel verified (GRO) stays verified, so the pod does not compute it
// again. Segments that the kernel joined have another state, in which nothing is computed.
func TestVerifiedChecksum(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
	for _, feature := range []uint32{unix.ETHTOOL_STSO, unix.ETHTOOL_STXCSUM} { // as a wire does: segments with checksums
		must(t, setFeature(a.node.ns, "eth0", feature, false))
	}
	must(t, setFeature(c.node.ns, "eth0", unix.ETHTOOL_SGRO, true))
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 2})
	must(t, err)
	defer counts.Close()
	const protocol, gsoSize = 16, 176 // in struct __sk_buff
	attachCode(t, c.ns, "net1", netlink.HANDLE_MIN_INGRESS,
		asm.LoadMem(asm.R2, asm.R1, gsoSize, asm.Word), asm.JNE.Imm(asm.R2, 0, "end"),
		asm.LoadMem(asm.R2, asm.R1, protocol, asm.Word), asm.JNE.Imm(asm.R2, 8, "end"), // IPv4
		asm.Mov.Imm(asm.R2, 0), asm.FnCsumLevel.Call(),
		asm.StoreImm(asm.R10, -4, 0, asm.Word), asm.JSLT.Imm(asm.R0, 0, "count"), asm.StoreImm(asm.R10, -4, 1, asm.Word),
		asm.LoadMapPtr(asm.R1, counts.FD()).WithSymbol("count"), asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, -4), asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"), asm.Mov.Imm(asm.R1, 1), asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("end"), asm.Return())
	c.listen()
	must(t, a.sends(c.ip))
	var unverified, verified uint64
	must(t, counts.Lookup(uint32(0), &unverified))
	must(t, counts.Lookup(uint32(1), &verified))
	if unverified > 0 || verified == 0 {
		t.Errorf("%d segments arrive without a verified checksum, and %d with one", unverified, verified)
	}
}

// dial UDP port 7.
func (p *pod) dial(to netip.Addr) (conn *net.UDPConn) {
	p.Helper()
	must(p, in(p.ns, func() (err error) {
		conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 7)))
		return err
	}))
	p.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Segments of UDP reach a pod on another node, where the wire passes them whole. They may be as large
// as the MTU allows.
func TestSegmentsOfUDP(t *testing.T) {
	for network, size := range map[testNetwork]int{blue: 1422, blue6: 1402} {
		l := newLab(t, false)
		base := network.cidr.Addr()
		from, to := base.Next().Next(), base.Next().Next().Next()
		a, c := l.nodes[0].pod("a", network, from.String()), l.nodes[1].pod("c", network, to.String())
		a.listen()
		if got := c.asks(a.ip, "?"); got != "a" { // its address is ready then
			t.Errorf("%q answers", got)
		}
		conn := a.dial(c.ip)
		raw, err := conn.SyscallConn()
		must(t, err)
		must(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, size) }))
		must(t, err)
		got := c.receives(3, 3*time.Second, func() { _, err = conn.Write(make([]byte, 3000)) })
		must(t, err)
		if !slices.Equal(got, []int{size, size, 3000 - 2*size}) {
			t.Errorf("%s receives %v; drops on node1: %s, on node2: %s", c.ip, got, a.drops(), c.drops())
		}
	}
}

// A mark of congestion (ECN) on the outer header reaches the pod.
func TestCongestion(t *testing.T) {
	l := newLab(t, false)
	a, c := l.nodes[0].pod("a", blue, "192.168.0.2"), l.nodes[1].pod("c", blue, "192.168.0.3")
	n1, n2 := l.nodes[0], l.nodes[1]
	must(t, in(n1.ns, func() error { _, err := Detach(int(n1.eth)); return err }))
	inner := udp4(a.ip, c.ip)
	inner[1] = 2 // capable of ECN
	setChecksum(inner)
	packet := vxlan(n1.ip, n2.ip, blue.vni, frame(c.mac, a.mac, unix.ETH_P_IP, inner...))
	packet[1] = 3 // congested
	setChecksum(packet)
	var socket int
	must(t, in(c.ns, func() (err error) {
		socket, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
		return err
	}))
	defer unix.Close(socket)
	must(t, unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3}))
	must(t, send(n1.ns, "eth0", frame(n2.mac(), n1.mac(), unix.ETH_P_IP, packet...)))
	b := make([]byte, 100)
	if _, _, err := unix.Recvfrom(socket, b, 0); err != nil || b[1]&3 != 3 {
		t.Errorf("%v, ECN %d; drops: %s", err, b[1]&3, n2.drops())
	}
}
