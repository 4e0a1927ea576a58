package ipam

import (
	"net/netip"
	"testing"
)

func TestParseRange(t *testing.T) {
	const form = ` is invalid: write ADDRESS, FIRST-LAST or a CIDR, for example 192.168.7.10-192.168.7.99: ParseAddr`
	for _, tt := range []struct{ name, in, want string }{
		{"v4 CIDR", "192.168.0.0/24", "192.168.0.0-192.168.0.255"},
		{"v6 CIDR", "fd00::/64", "fd00::-fd00::ffff:ffff:ffff:ffff"},
		{"all of v4", "0.0.0.0/0", "0.0.0.0-255.255.255.255"},
		{"single address as CIDR", "10.0.0.1/32", "10.0.0.1"},
		{"two addresses", "192.168.7.10-192.168.7.99", "192.168.7.10-192.168.7.99"},
		{"two v6 addresses", "fd00::1-fd00::ff", "fd00::1-fd00::ff"},
		{"numbers, not text, are ordered", "10.0.0.9-10.0.0.10", "10.0.0.9-10.0.0.10"},
		{"one address", "10.0.0.1", "10.0.0.1"},
		{"one address twice", "10.0.0.1-10.0.0.1", "10.0.0.1"},
		{"the result has canonical text", "FD00:0:0::1", "fd00::1"},

		{"host bits", "10.0.0.7/24", `address range "10.0.0.7/24": has bits set after the prefix: write "10.0.0.0/24"`},
		{"reversed", "10.0.0.9-10.0.0.1", `address range "10.0.0.9-10.0.0.1" is reversed: write "10.0.0.1-10.0.0.9"`},
		{"two families", "10.0.0.1-fd00::1", `address range "10.0.0.1-fd00::1" mixes IPv4 and IPv6: write one range for each`},
		{"space", "10.0.0.1 - 10.0.0.9", `address range "10.0.0.1 - 10.0.0.9" contains a space: remove it`},
		{"zone", "fe80::1%eth0", `address range "fe80::1%eth0": "fe80::1%eth0" has a zone: write "fe80::1"`},
		{"zone of the end", "fe80::1-fe80::2%eth0", `address range "fe80::1-fe80::2%eth0": "fe80::2%eth0" has a zone: write "fe80::2"`},
		{"IPv4-mapped", "::ffff:10.0.0.1", `address range "::ffff:10.0.0.1": "::ffff:10.0.0.1" is IPv4-mapped IPv6: write "10.0.0.1"`},
		{"CIDR with an IPv4-mapped end", "::/80", `address range "::/80" ends in ::ffff:255.255.255.255, which is IPv4-mapped IPv6: write a CIDR outside ::ffff:0.0.0.0/96`},
		{"IPv4-mapped CIDR", "::ffff:10.0.0.0/120", `address range "::ffff:10.0.0.0/120": is IPv4-mapped IPv6: write "10.0.0.0/24"`},
		{"empty", "", `address range "": ""` + form + `(""): unable to parse IP`},
		{"no end", "10.0.0.1-", `address range "10.0.0.1-": ""` + form + `(""): unable to parse IP`},
		{"three parts", "10.0.0.1-10.0.0.2-10.0.0.3", `address range "10.0.0.1-10.0.0.2-10.0.0.3": "10.0.0.2-10.0.0.3"` + form +
			`("10.0.0.2-10.0.0.3"): unexpected character (at "-10.0.0.3")`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ParseRange(tt.in)
			got := r.String()
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("ParseRange(%q)\n got %s\nwant %s", tt.in, got, tt.want)
			}
		})
	}
}

func TestRangeContains(t *testing.T) {
	addr := netip.MustParseAddr
	v4 := Range{addr("10.0.0.9"), addr("10.0.0.11")}
	v6 := Range{addr("fe80::9"), addr("fe80::11")}
	for _, tt := range []struct {
		name string
		r    Range
		a    netip.Addr
		want bool
	}{
		{"below", v4, addr("10.0.0.8"), false},
		{"first", v4, addr("10.0.0.9"), true},
		{"last", v4, addr("10.0.0.11"), true},
		{"above", v4, addr("10.0.0.12"), false},
		{"mapped", v4, addr("::ffff:10.0.0.10"), false},
		{"v6", v6, addr("fe80::10"), true},
		{"zoned", v6, addr("fe80::10%eth0"), false},
		{"zero Addr in zero Range", Range{}, netip.Addr{}, false},
		{"from v4 to v6", Range{v4.First, v6.Last}, addr("10.0.0.10"), false},
		{"zoned Range", Range{v6.First, addr("fe80::11%eth0")}, addr("fe80::10"), false},
		{"reversed", Range{v4.Last, v4.First}, addr("10.0.0.10"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.r.Contains(tt.a); got != tt.want {
				t.Errorf("%s contains %s: got %t, want %t", tt.r, tt.a, got, tt.want)
			}
		})
	}
}

// A parsed range is well-formed, and String writes a form that reads the same.
func FuzzParseRange(f *testing.F) {
	for _, s := range []string{
		"192.168.0.0/24", "192.168.7.10-192.168.7.99", "10.0.0.1", "0.0.0.0/0", "::/0", "fd00::/127",
		"2001:db8::1-2001:db8::ff", "fe80::1%a-b", "::ffff:10.0.0.1", "::ffff:10.0.0.0/120", "::/80",
		"::1-::ffff:1.2.3.4", "10.0.0.9-10.0.0.1", "10.0.0.1-fd00::1", "010.0.0.1", "10.0.0.1-", "-", "/", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRange(s)
		if err != nil {
			if r != (Range{}) {
				t.Fatalf("ParseRange(%q) = %s with the error %v", s, r, err)
			}
			return
		}
		if !r.Contains(r.First) || !r.Contains(r.Last) || r.First.Is4In6() || r.Last.Is4In6() {
			t.Fatalf("ParseRange(%q) = %s is not well-formed", s, r)
		}
		if again, err := ParseRange(r.String()); err != nil || again != r {
			t.Fatalf("ParseRange(%q) = %s, which reads as %s, %v", s, r, again, err)
		}
	})
}

func TestRangeOverlaps(t *testing.T) {
	for _, tt := range []struct {
		r, cidr string
		want    bool
	}{
		{"10.0.0.0/30", "10.0.0.0/24", true},
		{"10.0.0.0/16", "10.0.7.0/24", true},
		{"9.255.255.255-10.0.0.0", "10.0.0.0/24", true},
		{"10.0.0.255-10.0.1.9", "10.0.0.0/24", true},
		{"10.0.1.0", "10.0.0.0/24", false},
		{"9.255.255.255", "10.0.0.0/24", false},
		{"fd00::/64", "10.0.0.0/24", false},
		{"10.0.0.1", "fd00::/64", false},
		{"::-fd00::1", "fd00::/64", true},
	} {
		r, err := ParseRange(tt.r)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Overlaps(netip.MustParsePrefix(tt.cidr)); got != tt.want {
			t.Errorf("%s overlaps %s: %t", tt.r, tt.cidr, got)
		}
	}
}
