package dataplane

import (
	"net/netip"
	"testing"
)

// The route that a pod needs after its Network has grown.
func TestRoute(t *testing.T) {
	for _, tt := range []struct{ name, cidr, published, want string }{
		{"a pod that has a smaller prefix", "192.168.0.0/28", "192.168.0.2/29", "192.168.0.0/28"},
		{"the same, of IPv6", "fd00::/124", "fd00::2/125", "fd00::/124"},
		{"a Network that grew to below", "192.168.0.0/28", "192.168.0.10/29", "192.168.0.0/28"},
		{"a pod that has the whole prefix", "192.168.0.0/28", "192.168.0.9/28", ""},
		{"a pod of an earlier Network with this name", "192.168.0.0/28", "10.0.0.2/29", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			published, got := netip.MustParsePrefix(tt.published), ""
			if r := (Network{CIDR: netip.MustParsePrefix(tt.cidr)}).Route(Attachment{IP: published.Addr(), Bits: published.Bits()}); r.IsValid() {
				got = r.String()
			}
			expect(t, got, tt.want)
		})
	}
}
