package main

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestParseRoutes(t *testing.T) {
	got, err := parseRoutes(`Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0101F40A	0003	0	0	0	00000000	0	0	0
net1	00000000	0100A8C0	0003	0	0	4294967295	00000000	0	0	0
net1	0000A8C0	00000000	0001	0	0	0	0000FFFF	0	0	0
`)
	want := `default via 10.244.1.1 dev eth0 metric 0
default via 192.168.0.1 dev net1 metric 4294967295
192.168.0.0/16 dev net1 metric 0`
	if err != nil || strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\n%v\nwant\n%s", strings.Join(got, "\n"), err, want)
	}
}

// A server on loopback echoes every datagram; an unused port echoes none.
func TestPing(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = echo(server) }()
	address := server.LocalAddr().String()
	for _, tt := range []struct {
		want    string
		timeout time.Duration // the first case ends with the last answer
	}{{"5 sent, 5 received\n", 10 * time.Second}, {"5 sent, 0 received\n", 100 * time.Millisecond}} {
		var out bytes.Buffer
		if err := ping(&out, 5, nil, time.Millisecond, tt.timeout, address); err != nil {
			t.Fatal(err)
		}
		if out.String() != tt.want {
			t.Errorf("got %q, want %q", out.String(), tt.want)
		}
		server.Close()
	}
}

// Without a count it sends until it is stopped.
func TestPingUntilStopped(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	stop := make(chan bool)
	go func() {
		buffer := make([]byte, 64)
		for range 3 {
			if _, _, err := server.ReadFrom(buffer); err != nil {
				t.Error(err)
			}
		}
		close(stop)
	}()
	var out bytes.Buffer
	if err := ping(&out, 0, stop, time.Millisecond, 50*time.Millisecond, server.LocalAddr().String()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), " sent, 0 received\n") || strings.HasPrefix(out.String(), "0") {
		t.Errorf("got %q", out.String())
	}
}

func TestGetNobody(t *testing.T) {
	var out bytes.Buffer
	get(&out, time.Second, []string{"127.0.0.1:1"})
	if want := "127.0.0.1:1: connection refused\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// RFC 7348, section 5: eight bytes of VXLAN, and a frame with IPv4 and UDP.
func TestVXLAN(t *testing.T) {
	got := fmt.Sprintf("% x", vxlan(1001, net.HardwareAddr{0x0a, 0x58, 0xc0, 0xa8, 0, 2}, netip.MustParseAddrPort("192.168.0.2:9"), "hi"))
	want := "08 00 00 00 00 03 e9 00" + // the flag of the VNI, VNI 1001
		" 0a 58 c0 a8 00 02 0a 58 00 00 00 01 08 00" + // to, from, IPv4
		" 45 00 00 1e 00 00 00 00 40 11 f8 23 c0 00 02 01 c0 a8 00 02" + // 30 bytes, UDP, from 192.0.2.1 to 192.168.0.2
		" 12 b5 00 09 00 0a 00 00 68 69" // from port 4789 to 9, 10 bytes
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A neighbour advertisement (RFC 4861, section 4.4).
func TestClaim(t *testing.T) {
	mac := net.HardwareAddr{0x0a, 0x58, 0, 0, 0, 9}
	got := fmt.Sprintf("% x", claim(net.HardwareAddr{0x0a, 0x58, 0, 0, 0, 2}, mac, netip.MustParseAddr("fd00::9"), netip.MustParseAddr("fd00::2")))
	want := "0a 58 00 00 00 02 0a 58 00 00 00 09 86 dd" + // to, from, IPv6
		" 60 00 00 00 00 20 3a ff" + // 32 bytes, ICMPv6, 255 hops
		" fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 09 fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02" +
		" 88 00 54 2c 20 00 00 00" + // it overrides
		" fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 09 02 01 0a 58 00 00 00 09"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The ones' complement sum of a message with its checksum is all ones (RFC 792).
func TestEchoRequestAddsUp(t *testing.T) {
	var sum uint32
	message := echoRequest(false)
	for i := 0; i < len(message); i += 2 {
		sum += uint32(message[i])<<8 | uint32(message[i+1])
	}
	if sum != 0xffff {
		t.Errorf("%x adds up to %x", message, sum)
	}
}
