//go:build linux && kernel

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

var everybody = dataplane.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// frame sends any bytes as a frame from an interface of a namespace.
func (l *lab) frame(namespace, dev string, to, from dataplane.MAC, etherType uint16, content []byte) {
	l.Helper()
	l.frameBy(0, namespace, dev, to, from, etherType, content)
}

// frameBypass is frame, but the frame does not meet tc when it leaves.
func (l *lab) frameBypass(namespace, dev string, to, from dataplane.MAC, etherType uint16, content []byte) {
	l.Helper()
	l.frameBy(1, namespace, dev, to, from, etherType, content)
}

func (l *lab) frameBy(bypass int, namespace, dev string, to, from dataplane.MAC, etherType uint16, content []byte) {
	l.Helper()
	l.in(namespace, func() error {
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, bypass); err != nil {
			return err
		}
		b := append(append(to[:], from[:]...), byte(etherType>>8), byte(etherType))
		err = unix.Sendto(fd, append(b, content...), 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Halen: 6})
		if errors.Is(err, unix.ENOBUFS) {
			return nil // a program dropped it before it left
		}
		return err
	})
}

// arp is a reply that claims that ip is at mac.
func arp(mac dataplane.MAC, ip netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, 2}
	b = append(append(b, mac[:]...), ip.AsSlice()...)
	return append(append(b, everybody[:]...), ip.AsSlice()...)
}

// udp4 is a UDP packet without a checksum, which IPv4 allows.
func udp4(from, to netip.Addr, port uint16, content string) []byte {
	b := []byte{0x45, 0, 0, byte(28 + len(content)), 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	b = binary.BigEndian.AppendUint16(append(b, 0x10, 0), port)
	return append(append(b, 0, byte(8+len(content)), 0, 0), content...)
}

// inVXLAN wraps a packet as a node would, to deliver it to one pod in another's name.
func inVXLAN(from, to *labPod, packet []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0x08, 0, 0, 0}, uint32(to.network.VNI)<<8)
	b = append(append(b, to.mac[:]...), from.mac[:]...)
	return append(append(b, 0x08, 0x00), packet...)
}

// capture frames that pass an interface of a namespace from now on. The returned function
// ends the capture and returns the frames.
func (l *lab) capture(namespace, dev string) func() [][]byte {
	l.Helper()
	fd := -1
	l.in(namespace, func() error {
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: link.Attrs().Index}) // ETH_P_ALL, in network byte order
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

func (p *labPod) listen(port string) func(time.Duration) string {
	p.Helper()
	var inbox net.PacketConn
	p.in(p.name, func() (err error) { inbox, err = net.ListenPacket("udp", port); return err })
	p.Cleanup(func() { _ = inbox.Close() })
	return func(wait time.Duration) string {
		b := make([]byte, 1<<16)
		_ = inbox.SetReadDeadline(time.Now().Add(wait))
		size, _, _ := inbox.ReadFrom(b)
		return string(b[:size])
	}
}
