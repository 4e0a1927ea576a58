package main

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"time"
)

// The types of ICMP's and ICMPv6's echo messages.
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
)

// askEcho asks all addresses at once. It asks each up to three times, because the first
// request may wait for a neighbour. It needs CAP_NET_RAW, which root in a container has.
func askEcho(w io.Writer, timeout time.Duration, addresses []string) {
	each(w, addresses, func(address string) (string, error) {
		ip, err := netip.ParseAddr(address)
		if err != nil {
			return "", err
		}
		network, reply := "ip4:icmp", byte(echoReply4)
		if ip.Is6() {
			network, reply = "ip6:ipv6-icmp", echoReply6
		}
		conn, err := net.DialIP(network, nil, &net.IPAddr{IP: ip.AsSlice()})
		if err != nil {
			return "", reason(err)
		}
		defer conn.Close()
		buffer := make([]byte, 1500)
		for range 3 {
			if _, err := conn.Write(echoRequest(ip.Is6())); err != nil {
				return "", reason(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(timeout / 3)); err != nil {
				return "", err
			}
			for {
				n, _, err := conn.ReadFromIP(buffer) // Read would return the IPv4 header too
				if err != nil {
					break
				}
				// The socket is connected, so no other host's answer arrives here. Requests do arrive, if
				// the address is this host's own.
				if n > 0 && buffer[0] == reply {
					return "answers", nil
				}
			}
		}
		return "no answer", nil
	})
}

// echoRequest is a message of 8 bytes: type, code, checksum, identifier, sequence. For ICMPv6
// the kernel fills in the checksum, because it also covers the addresses.
func echoRequest(v6 bool) []byte {
	if v6 {
		return []byte{echoRequest6, 0, 0, 0, 0x70, 0x32, 0, 1}
	}
	message := []byte{echoRequest4, 0, 0, 0, 0x70, 0x32, 0, 1}
	binary.BigEndian.PutUint16(message[2:], checksum(message))
	return message
}

// checksum of a message, with its own two bytes as 0 (RFC 1071).
func checksum(message []byte) uint16 {
	var sum uint32
	if len(message)%2 > 0 {
		message = append(message[:len(message):len(message)], 0)
	}
	for i := 0; i < len(message); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(message[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
