package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// datagram is an IP packet with UDP, from port 4789.
func datagram(from netip.Addr, to netip.AddrPort, text string) []byte {
	udp := binary.BigEndian.AppendUint16(nil, 4789)
	udp = binary.BigEndian.AppendUint16(udp, to.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(text)))
	udp = append(udp, 0, 0) // IPv4 allows UDP without a checksum
	return packet(from, to.Addr(), unix.IPPROTO_UDP, 6, append(udp, text...))
}

// packet is an IP packet. IPv6 needs a checksum, at an offset in the content.
func packet(from, to netip.Addr, protocol byte, check int, content []byte) []byte {
	addresses := append(from.AsSlice(), to.AsSlice()...)
	if from.Is4() {
		header := append([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0}, addresses...)
		binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(content)))
		binary.BigEndian.PutUint16(header[10:], checksum(header))
		return append(header, content...)
	}
	size := binary.BigEndian.AppendUint16(nil, uint16(len(content)))
	covered := append(append(append([]byte{}, addresses...), 0, 0, size[0], size[1], 0, 0, 0, protocol), content...)
	binary.BigEndian.PutUint16(content[check:], checksum(covered))
	header := []byte{0x60, 0, 0, 0, size[0], size[1], protocol, 255} // neighbour discovery needs 255 hops
	return append(append(header, addresses...), content...)
}

// frame is an Ethernet frame with an IP packet.
func frame(to, from net.HardwareAddr, packet []byte) []byte {
	kind := uint16(unix.ETH_P_IP)
	if packet[0]>>4 == 6 {
		kind = unix.ETH_P_IPV6
	}
	return append(ethernet(to, from, kind), packet...)
}

func ethernet(to, from net.HardwareAddr, kind uint16) []byte {
	return binary.BigEndian.AppendUint16(append(append([]byte{}, to...), from...), kind)
}

// claim tells a neighbour, without a question, that an address has a MAC address: by an ARP reply (RFC 826), or a neighbour
// advertisement that overrides others (RFC 4861).
func claim(to, mac net.HardwareAddr, address, neighbour netip.Addr) []byte {
	if address.Is4() {
		pair := append(append([]byte{}, mac...), address.AsSlice()...)
		arp := append([]byte{0, 1, 8, 0, 6, 4, 0, 2}, pair...)
		return append(ethernet(to, mac, unix.ETH_P_ARP), append(arp, pair...)...)
	}
	advertisement := append([]byte{136, 0, 0, 0, 0x20, 0, 0, 0}, address.AsSlice()...)
	advertisement = append(append(advertisement, 2, 1), mac...)
	return frame(to, mac, packet(address, neighbour, unix.IPPROTO_ICMPV6, 2, advertisement))
}

// forge sends a datagram with any source address, or a claim if it gets no text. It needs CAP_NET_RAW, which root in a
// container has.
func forge(skipTC bool, dev string, args []string) error {
	mac, errMAC := net.ParseMAC(args[0])
	address, errAddress := netip.ParseAddr(args[1])
	to, errTo := net.ParseMAC(args[2])
	target, errTarget := netip.ParseAddrPort(args[3])
	link, errLink := net.InterfaceByName(dev)
	if err := errors.Join(errMAC, errAddress, errTo, errTarget, errLink); err != nil {
		return err
	}
	content := claim(to, mac, address, target.Addr())
	if len(args) > 4 {
		content = frame(to, mac, datagram(address, target, args[4]))
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	if skipTC {
		if err := unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			return fmt.Errorf("make a socket that skips tc: %w", err)
		}
	}
	return unix.Sendto(socket, content, 0, &unix.SockaddrLinklayer{Ifindex: link.Index})
}

// neighbours prints the MAC addresses that the kernel knows.
func neighbours(w io.Writer) error {
	all, err := netlink.NeighList(0, netlink.FAMILY_ALL)
	for _, n := range all {
		if n.HardwareAddr != nil {
			fmt.Fprintf(w, "%s %s\n", n.IP, n.HardwareAddr)
		}
	}
	return err
}
