//go:build linux

package kernel

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Routes that kernels make by themselves in a router's namespace are ignored. The test has
// routes of kernels other than the one that it runs on.
func TestRoutesOfTheKernel(t *testing.T) {
	r := newRoom("pod2-1001")
	r.names[1], r.names[2] = "lo", "lan"
	for _, tt := range []struct {
		name                  string
		dst                   string
		table, protocol, kind byte
		flags, index, metric  uint32
		want                  string
	}{
		{"of an address", "fd00:10::/64", unix.RT_TABLE_MAIN, unix.RTPROT_KERNEL, unix.RTN_UNICAST, 0, 2, 256, "ip -6 route del fd00:10::/64 dev lan"},
		{"of an address of IPv4", "192.168.0.0/16", unix.RT_TABLE_MAIN, unix.RTPROT_KERNEL, unix.RTN_UNICAST, 0, 2, 0, "ip route del 192.168.0.0/16 dev lan"},
		{"a user's", "fd00:99::/64", unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RTN_UNICAST, 0, 2, 1024, "ip -6 route del fd00:99::/64 dev lan"},
		{"a user's, with the metric of the kernel's routes", "fd00:99::/64", unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RTN_UNICAST, 0, 2, 256, "ip -6 route del fd00:99::/64 dev lan metric 256"},
		{"to an interface that is new", "fd00:99::/64", unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RTN_UNICAST, 0, 9, 1024, "ip -6 route del fd00:99::/64 dev if9"},
		{"of the table local", "fd00:10::1/128", unix.RT_TABLE_LOCAL, unix.RTPROT_KERNEL, unix.RTN_LOCAL, 0, 2, 0, ""},
		{"of lo, in the table main", "::1/128", unix.RT_TABLE_MAIN, unix.RTPROT_KERNEL, unix.RTN_UNICAST, 0, 1, 256, ""},
		{"of multicasts, as if a user had made it", "ff00::/8", unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RTN_UNICAST, 0, 2, 256, ""},
		{"of no table, which says that there is none", "::/0", unix.RT_TABLE_UNSPEC, unix.RTPROT_KERNEL, unix.RTN_UNREACHABLE, 0, 1, 1<<32 - 1, ""},
		{"one that the kernel cached", "fd00:10::2/128", unix.RT_TABLE_MAIN, unix.RTPROT_REDIRECT, unix.RTN_UNICAST, unix.RTM_F_CLONED, 2, 0, ""},
	} {
		p := netip.MustParsePrefix(tt.dst)
		family := byte(unix.AF_INET)
		if p.Addr().Is6() {
			family = unix.AF_INET6
		}
		m := []byte{family, byte(p.Bits()), 0, 0, tt.table, tt.protocol, 0, tt.kind}
		m = binary.NativeEndian.AppendUint32(m, tt.flags)
		if p.Bits() > 0 {
			m = append(m, nl.NewRtAttr(unix.RTA_DST, p.Addr().AsSlice()).Serialize()...)
		}
		m = append(m, nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(tt.index)).Serialize()...)
		m = append(m, nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(tt.metric)).Serialize()...)
		got := ""
		if route, counts := r.route(m); counts {
			got = dataplane.DelRoute{Route: route}.String()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
