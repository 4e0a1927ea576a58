package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"
)

// inject sends a VXLAN packet to a node through a plain socket, like another node. The packet
// is for the pod with that MAC address and address on the Network with that VNI. VXLAN has no
// answers: use hear to see whether the packet arrived.
func inject(w io.Writer, node, vni, mac, target, text string) error {
	var network uint32
	if _, err := fmt.Sscanf(vni, "%d", &network); err != nil {
		return fmt.Errorf("the VNI %q is not a number: %w", vni, err)
	}
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	to, err := netip.ParseAddrPort(target)
	if err != nil {
		return err
	}
	if err := say(net.JoinHostPort(node, "4789"), vxlan(network, hardware, to, text)); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: sent\n", node)
	return nil
}

// say sends a datagram through a plain socket.
func say(address string, text []byte) error {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write(text)
	return err
}

// vxlan is the content of the UDP packet: the VXLAN header with a flag and the VNI (RFC 7348),
// then a frame with IP, UDP and the text. No pod has the addresses of its sender: 0a:58:00:00:00:01, and 192.0.2.1 or
// 2001:db8::1.
func vxlan(vni uint32, mac net.HardwareAddr, to netip.AddrPort, text string) []byte {
	from := netip.AddrFrom4([4]byte{192, 0, 2, 1})
	if to.Addr().Is6() {
		from = netip.MustParseAddr("2001:db8::1")
	}
	header := binary.BigEndian.AppendUint32([]byte{0x08, 0, 0, 0}, vni<<8)
	return append(header, frame(mac, net.HardwareAddr{0x0a, 0x58, 0, 0, 0, 1}, datagram(from, to, text))...)
}

// hear prints the datagrams to an address, up to the one that is last.
func hear(w io.Writer, timeout time.Duration, address, last string) error {
	packets, err := (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", address)
	if err != nil {
		return err
	}
	defer packets.Close()
	fmt.Fprintln(w, "listening")
	if err := packets.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := packets.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			fmt.Fprintln(w, "no more datagrams arrived")
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(w, string(buffer[:n]))
		if string(buffer[:n]) == last {
			return nil
		}
	}
}
