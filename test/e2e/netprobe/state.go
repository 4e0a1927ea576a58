package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
)

// links prints a line for each interface except loopback, without link-local addresses.
func links(w io.Writer) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, link := range all {
		if link.Flags&net.FlagLoopback != 0 {
			continue
		}
		state := "down"
		if link.Flags&net.FlagUp != 0 {
			state = "up"
		}
		line := fmt.Sprintf("%s %s mtu %d %s", link.Name, state, link.MTU, link.HardwareAddr)
		addresses, err := link.Addrs()
		if err != nil {
			return err
		}
		for _, address := range addresses {
			if ip, ok := address.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
				line += " " + ip.String()
			}
		}
		fmt.Fprintln(w, line)
	}
	return nil
}

// routes prints the IPv4 routes of the main table, in the kernel's order.
func routes(w io.Writer) error {
	data, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return err
	}
	lines, err := parseRoutes(string(data))
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	return err
}

// parseRoutes reads the kernel's table. Its addresses are in the machine's byte order, which
// is little-endian on all machines that run this:
//
//	Iface Destination Gateway  Flags RefCnt Use Metric Mask     MTU Window IRTT
//	eth0  00000000    0101F40A 0003  0      0   0      00000000 0   0      0
//	default via 10.244.1.1 dev eth0 metric 0
func parseRoutes(table string) ([]string, error) {
	var lines []string
	for _, row := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		f := strings.Fields(row)
		if len(f) < 8 {
			return nil, fmt.Errorf("a route has only %d fields: %q", len(f), row)
		}
		var addresses [3]netip.Addr
		for i, field := range []string{f[1], f[2], f[7]} {
			b, err := hex.DecodeString(field)
			if err != nil || len(b) != 4 {
				return nil, fmt.Errorf("%q is not an address: %q", field, row)
			}
			addresses[i] = netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]})
		}
		mask := addresses[2].As4()
		bits, _ := net.IPMask(mask[:]).Size()
		line := netip.PrefixFrom(addresses[0], bits).String()
		if line == "0.0.0.0/0" {
			line = "default"
		}
		if !addresses[1].IsUnspecified() {
			line += " via " + addresses[1].String()
		}
		lines = append(lines, fmt.Sprintf("%s dev %s metric %s", line, f[0], f[6]))
	}
	return lines, nil
}
