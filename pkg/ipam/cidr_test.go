package ipam

import (
	"net/netip"
	"testing"
)

func TestCheckCIDR(t *testing.T) {
	overlap := func(in, with string) string {
		return `CIDR "` + in + `" overlaps ` + with + `, which pods cannot use: write a CIDR outside it, for example 192.168.0.0/16 or fd00:10::/64`
	}
	const form = "is invalid: write an address and a prefix length, for example 192.168.0.0/16 or fd00:10::/64: netip.ParsePrefix"
	for _, tt := range []struct{ in, want string }{
		{"192.168.0.0/16", "192.168.0.0/16"},
		{"1.0.0.0/8", "1.0.0.0/8"},
		{"10.0.0.4/31", "10.0.0.4/31"},
		{"10.0.0.5/32", "10.0.0.5/32"},
		{"126.0.0.0/8", "126.0.0.0/8"},
		{"fd00::/8", "fd00::/8"},
		{"fd00::4/127", "fd00::4/127"},
		{"::2/127", "::2/127"},

		{"10.0.0.5/24", `CIDR "10.0.0.5/24": has bits set after the prefix: write "10.0.0.0/24"`},
		{"fd00::1/64", `CIDR "fd00::1/64": has bits set after the prefix: write "fd00::/64"`},
		{"fd00::5/128", `CIDR "fd00::5/128" is one IPv6 address: write /127 or larger, for example "fd00::4/127"`},
		{"::ffff:10.0.0.0/104", `CIDR "::ffff:10.0.0.0/104": is IPv4-mapped IPv6: write "10.0.0.0/8"`},
		{"::ffff:0.0.0.0/90", `CIDR "::ffff:0.0.0.0/90": is IPv4-mapped IPv6: write IPv4, for example 192.168.0.0/16`},
		{"", `CIDR "": ` + form + `(""): no '/'`},
		{"10.0.0.0", `CIDR "10.0.0.0": ` + form + `("10.0.0.0"): no '/'`},
		{"10.0.0.0/33", `CIDR "10.0.0.0/33": ` + form + `("10.0.0.0/33"): prefix length out of range`},
		{"fe80::%eth0/64", `CIDR "fe80::%eth0/64": ` + form + `("fe80::%eth0/64"): IPv6 zones cannot be present in a prefix`},

		// Inside, equal, containing.
		{"127.1.0.0/16", overlap("127.1.0.0/16", "127.0.0.0/8 (loopback)")},
		{"127.0.0.0/8", overlap("127.0.0.0/8", "127.0.0.0/8 (loopback)")},
		{"126.0.0.0/7", overlap("126.0.0.0/7", "127.0.0.0/8 (loopback)")},
		{"0.1.0.0/16", overlap("0.1.0.0/16", "0.0.0.0/8 (this network)")},
		{"0.0.0.0/0", overlap("0.0.0.0/0", "0.0.0.0/8 (this network)")},
		{"169.254.1.0/24", overlap("169.254.1.0/24", "169.254.0.0/16 (link-local)")},
		{"160.0.0.0/4", overlap("160.0.0.0/4", "169.254.0.0/16 (link-local)")},
		{"239.0.0.0/8", overlap("239.0.0.0/8", "224.0.0.0/4 (multicast)")},
		{"::/0", overlap("::/0", "::/128 (unspecified)")},
		{"::/127", overlap("::/127", "::/128 (unspecified)")},
		{"::1/128", overlap("::1/128", "::1/128 (loopback)")},
		{"fe80:1::/64", overlap("fe80:1::/64", "fe80::/10 (link-local)")},
		{"fe00::/8", overlap("fe00::/8", "fe80::/10 (link-local)")},
		{"ff02::/16", overlap("ff02::/16", "ff00::/8 (multicast)")},
		{"::fffe:0:0/95", overlap("::fffe:0:0/95", "::ffff:0.0.0.0/96 (IPv4-mapped)")},

		{"169.254.1.1/16", overlap("169.254.1.1/16", "169.254.0.0/16 (link-local)")}, // not: write "169.254.0.0/16"
	} {
		t.Run(tt.in, func(t *testing.T) {
			p, err := CheckCIDR(tt.in)
			got := p.String()
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("CheckCIDR(%q)\n got %s\nwant %s", tt.in, got, tt.want)
			}
		})
	}
}

func TestDefaultGateway(t *testing.T) {
	for _, tt := range []struct{ cidr, want string }{
		{"10.0.0.0/8", "10.0.0.1"},
		{"10.0.0.4/30", "10.0.0.5"},
		{"10.0.0.4/31", "10.0.0.4"},
		{"10.0.0.4/32", "none"},
		{"fd00::/64", "fd00::1"},
		{"fd00::4/126", "fd00::5"},
		{"fd00::4/127", "fd00::4"},
		{"fd00::4/128", "none"},
		{"invalid", "none"},
	} {
		t.Run(tt.cidr, func(t *testing.T) {
			cidr, _ := netip.ParsePrefix(tt.cidr)
			got := "none"
			if a, ok := DefaultGateway(cidr); ok {
				got = a.String()
			}
			if got != tt.want {
				t.Errorf("DefaultGateway(%s): got %s, want %s", tt.cidr, got, tt.want)
			}
		})
	}
}

func TestLastOf(t *testing.T) {
	for _, tt := range []struct{ prefix, want string }{
		{"0.0.0.0/0", "255.255.255.255"},
		{"10.0.0.0/8", "10.255.255.255"},
		{"10.0.0.77/24", "10.0.0.255"},
		{"10.0.0.1/32", "10.0.0.1"},
		{"::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2000::/3", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"fd00::/63", "fd00::1:ffff:ffff:ffff:ffff"},
		{"fd00::/64", "fd00::ffff:ffff:ffff:ffff"},
		{"fd00::/65", "fd00::7fff:ffff:ffff:ffff"},
		{"fd00::1/128", "fd00::1"},
		{"::ffff:10.0.0.0/120", "::ffff:10.0.0.255"},
		{"invalid", "invalid IP"},
	} {
		t.Run(tt.prefix, func(t *testing.T) {
			p, _ := netip.ParsePrefix(tt.prefix)
			if got := LastOf(p).String(); got != tt.want {
				t.Errorf("LastOf(%s): got %s, want %s", tt.prefix, got, tt.want)
			}
		})
	}
}
