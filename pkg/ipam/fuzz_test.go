package ipam

import (
	"math"
	"net/netip"
	"strings"
	"testing"
)

// For a CIDR of any size: Refusal refuses the addresses that Next skips, and accepts
// those that it returns. No address that is handed out is outside the CIDR, the gateway
// or excluded. Small CIDRs are also compared with the oracle.
func FuzzPool(f *testing.F) {
	for _, s := range [][4]string{
		{"10.0.0.0/24", "10.0.0.1", "10.0.0.16-10.0.0.31,10.0.0.40", "10.0.0.20"},
		{"10.0.0.0/8", "", "10.0.0.0/9,10.128.0.0-10.200.0.0", "10.1.2.3"},
		{"10.0.0.4/31", "10.0.0.4", "", "10.0.0.4"},
		{"10.0.0.4/32", "", "10.0.0.4", "0.0.0.0"},
		{"255.255.255.0/24", "255.255.255.1", "255.255.255.254-255.255.255.255,255.255.255.255", "255.255.255.255"},
		{"0.0.0.0/0", "0.0.0.1", "0.0.0.0-1.0.0.0", "::"},
		{"fd00::/64", "fd00::1", "fd00::2-fd00::ffff,fd00::8000:0:0:0/65", "fd00::1"},
		{"fd00::4/127", "fd00::5", "10.0.0.0/8", "fd00::"},
		{"::/0", "::1", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", "::2"},
		{"10.0.0.4/31", "", "", "10.0.0.6"},
		{"::ffff:10.0.0.0/120", "10.0.0.1", "10.0.0.0/24", "::ffff:10.0.0.9"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, cidrText, gatewayText, excludeText, fromText string) {
		cidr, err := netip.ParsePrefix(cidrText)
		if err != nil {
			return
		}
		gateway, _ := netip.ParseAddr(gatewayText)
		from, _ := netip.ParseAddr(fromText)
		var exclude []Range
		for text := range strings.SplitSeq(excludeText, ",") {
			if r, err := ParseRange(text); err == nil {
				exclude = append(exclude, r)
			}
		}
		p := NewPool(cidr, gateway, exclude)

		free := func(a netip.Addr) bool { return p.Refusal(a) == "" }
		next, ok := p.Next(from)
		switch {
		case !ok && (free(from) || Range{from, LastOf(cidr)}.wellFormed() && free(LastOf(cidr))):
			t.Fatalf("Next(%s) finds no address, but there is one", from)
		case ok && (next.Less(from) || !free(next)):
			t.Fatalf("Next(%s) = %s, refused: %s", from, next, p.Refusal(next))
		case ok && next != from && (free(from) || free(next.Prev())):
			t.Fatalf("Next(%s) = %s is not the lowest", from, next)
		}
		if first, ok := p.First(); ok != (p.Capacity() > 0) || (ok && !free(first)) {
			t.Fatalf("First() = %s, %t with capacity %d", first, ok, p.Capacity())
		}
		all := Range{cidr.Masked().Addr(), LastOf(cidr)}
		if n := p.Capacity(); n < 0 || (n > all.size() && all.size() < math.MaxInt64) {
			t.Fatalf("capacity %d of %s", n, cidr)
		}
		for _, r := range append(exclude, all, Range{gateway, gateway}, Range{from, next}) {
			for _, a := range []netip.Addr{r.First, r.Last, r.First.Prev(), r.Last.Next()} {
				if !free(a) {
					continue
				}
				if !cidr.Contains(a) || a == gateway {
					t.Fatalf("%s is handed out", a)
				}
				for _, x := range exclude {
					if x.Contains(a) {
						t.Fatalf("%s is handed out, but is in %s", a, x)
					}
				}
			}
		}
		if cidr.Addr().BitLen()-cidr.Bits() <= 8 {
			if why := newOracle(cidr, gateway, exclude, nil, nil).disagreement(p); why != "" {
				t.Fatal(why)
			}
		}
	})
}
