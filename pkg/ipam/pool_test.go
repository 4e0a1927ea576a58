package ipam

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// pool reads "CIDR [gw ADDR] [RANGE...]".
func pool(t testing.TB, s string) Pool {
	t.Helper()
	words := strings.Fields(s)
	cidr := netip.MustParsePrefix(words[0])
	words = words[1:]
	var gateway netip.Addr
	if len(words) > 1 && words[0] == "gw" {
		gateway = netip.MustParseAddr(words[1])
		words = words[2:]
	}
	var exclude []Range
	for _, w := range words {
		r, err := ParseRange(w)
		if err != nil {
			t.Fatal(err)
		}
		exclude = append(exclude, r)
	}
	return NewPool(cidr, gateway, exclude)
}

// The whole pool: the addresses that it hands out, and their number.
func TestPool(t *testing.T) {
	for _, tt := range []struct{ name, pool, want string }{
		{"v4", "10.0.0.0/24 gw 10.0.0.1", "10.0.0.2-10.0.0.254 (253)"},
		{"v4 without gateway", "10.0.0.0/24", "10.0.0.1-10.0.0.254 (254)"},
		{"/30", "10.0.0.4/30", "10.0.0.5-10.0.0.6 (2)"},
		{"/31, RFC 3021", "10.0.0.4/31", "10.0.0.4-10.0.0.5 (2)"},
		{"/31 with its default gateway", "10.0.0.4/31 gw 10.0.0.4", "10.0.0.5 (1)"},
		{"/32", "10.0.0.4/32", "10.0.0.4 (1)"},
		{"/32 that is its gateway", "10.0.0.4/32 gw 10.0.0.4", "(0)"},
		{"v6: without anycast, with the last", "fd00::/120 gw fd00::1", "fd00::2-fd00::ff (254)"},
		{"/126", "fd00::4/126", "fd00::5-fd00::7 (3)"},
		{"/127, RFC 6164", "fd00::4/127", "fd00::4-fd00::5 (2)"},
		{"/8", "10.0.0.0/8 gw 10.0.0.1", "10.0.0.2-10.255.255.254 (16777213)"},
		{"all of v4", "0.0.0.0/0", "0.0.0.1-255.255.255.254 (4294967294)"},
		{"host bits", "10.0.0.77/24", "10.0.0.1-10.0.0.254 (254)"},

		{"2^63-1 fits", "fd00::/65", "fd00::1-fd00::7fff:ffff:ffff:ffff (9223372036854775807)"},
		{"one less", "fd00::/65 gw fd00::1", "fd00::2-fd00::7fff:ffff:ffff:ffff (9223372036854775806)"},
		{"/64 is limited", "fd00::/64 gw fd00::1", "fd00::2-fd00::ffff:ffff:ffff:ffff (9223372036854775807)"},
		{"halves that reach the limit only together", "fd00::/64 fd00::8000:0:0:0",
			"fd00::1-fd00::7fff:ffff:ffff:ffff fd00::8000:0:0:1-fd00::ffff:ffff:ffff:ffff (9223372036854775807)"},
		{"2^63 does not become negative", "fd00::/64 fd00::8000:0:0:1-fd00::ffff:ffff:ffff:ffff",
			"fd00::1-fd00::8000:0:0:0 (9223372036854775807)"},
		{"2^64+2 does not become 2", "fd00::/63 fd00:0:0:1::3-fd00::1:ffff:ffff:ffff:ffff",
			"fd00::1-fd00:0:0:1::2 (9223372036854775807)"},
		{"across the middle of 128 bits", "fd00::/63 fd00::-fd00::ffff:ffff:ffff:fffd fd00:0:0:1::2-fd00::1:ffff:ffff:ffff:ffff",
			"fd00::ffff:ffff:ffff:fffe-fd00:0:0:1::1 (4)"},
		{"2^64 does not become 0", "fd00::/63 fd00::-fd00::ffff:ffff:ffff:ffff",
			"fd00:0:0:1::-fd00::1:ffff:ffff:ffff:ffff (9223372036854775807)"},

		{"overlaps are removed once", "10.0.0.0/28 gw 10.0.0.5 10.0.0.4-10.0.0.6 10.0.0.5-10.0.0.8 10.0.0.5",
			"10.0.0.1-10.0.0.3 10.0.0.9-10.0.0.14 (9)"},
		{"the gateway joins two exclusions", "10.0.0.0/28 gw 10.0.0.5 10.0.0.6-10.0.0.14 10.0.0.2-10.0.0.4", "10.0.0.1 (1)"},
		{"network and broadcast excluded too", "10.0.0.0/29 10.0.0.0 10.0.0.7", "10.0.0.1-10.0.0.6 (6)"},
		{"a CIDR inside an exclusion", "10.0.0.0/28 9.0.0.0-11.0.0.0", "(0)"},
		{"exclusions over both ends", "10.0.0.0/28 9.0.0.0-10.0.0.3 10.0.0.12-11.0.0.0", "10.0.0.4-10.0.0.11 (8)"},
		{"elsewhere", "10.0.0.0/30 gw 10.1.0.1 9.255.255.255 10.0.0.4 fd00::/64", "10.0.0.1-10.0.0.2 (2)"},
		{"v4 exclusion, v6 pool", "fd00::4/127 0.0.0.0/0", "fd00::4-fd00::5 (2)"},
		{"end of v4", "255.255.255.254/31", "255.255.255.254-255.255.255.255 (2)"},
		{"exclusions that overlap at the end of v4", "255.255.255.252/31 255.255.255.253-255.255.255.255 255.255.255.255", "255.255.255.252 (1)"},
		{"end of v6 excluded", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
			"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffd-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe (2)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pool(t, tt.pool)
			var got string
			for _, r := range p.free {
				got += r.String() + " "
			}
			got += fmt.Sprintf("(%d)", p.Capacity())
			if got != tt.want {
				t.Errorf("%s\n got %s\nwant %s", tt.pool, got, tt.want)
			}
		})
	}
}

func TestPoolRefusal(t *testing.T) {
	const v4 = "10.0.0.0/24 gw 10.0.0.1 10.0.0.16/28 10.0.0.40 9.0.0.0-10.0.0.1 10.0.0.50-10.0.0.59 10.0.0.60-10.0.0.69"
	const v6 = "fd00::/64 gw fd00::1 fd00::10-fd00::1f"
	for _, tt := range []struct{ pool, addr, want string }{
		{v4, "10.0.0.2", ""},
		{v4, "10.0.1.2", "is outside 10.0.0.0/24"},
		{"10.0.0.77/24", "10.0.1.2", "is outside 10.0.0.0/24"}, // not 10.0.0.77/24
		{v4, "fd00::2", "is outside 10.0.0.0/24"},
		{v4, "::ffff:10.0.0.2", "is outside 10.0.0.0/24"},
		{v4, "10.0.0.0", "is the network address"},
		{v4, "10.0.0.255", "is the broadcast address"},
		{v4, "10.0.0.1", "is the gateway"}, // excluded too
		{v4, "10.0.0.15", ""},
		{v4, "10.0.0.16", "is excluded by 10.0.0.16-10.0.0.31"},
		{v4, "10.0.0.31", "is excluded by 10.0.0.16-10.0.0.31"},
		{v4, "10.0.0.32", ""},
		{v4, "10.0.0.40", "is excluded by 10.0.0.40"},
		{v4, "10.0.0.55", "is excluded by 10.0.0.50-10.0.0.69"},
		{v6, "fd00::", "is the subnet-router anycast address"},
		{v6, "fd00::1", "is the gateway"},
		{v6, "fd00::1f", "is excluded by fd00::10-fd00::1f"},
		{v6, "fd00::ffff:ffff:ffff:ffff", ""},
		{v6, "fd00::2%eth0", "is outside fd00::/64"},
		// Beside the gateway, only the exclusion is named.
		{"10.0.0.0/24 gw 10.0.0.1 10.0.0.2-10.0.0.9", "10.0.0.2", "is excluded by 10.0.0.2-10.0.0.9"},
	} {
		t.Run(tt.addr, func(t *testing.T) {
			if got := pool(t, tt.pool).Refusal(netip.MustParseAddr(tt.addr)); got != tt.want {
				t.Errorf("%s\n%s got %q, want %q", tt.pool, tt.addr, got, tt.want)
			}
		})
	}
}

func TestPoolOfAGrownCIDR(t *testing.T) {
	v4 := pool(t, "10.0.0.0/24 gw 10.0.0.1").Formerly(prefixes("10.0.0.0/29", "10.0.0.0/28", "10.0.0.0/24", "10.0.1.0/29", "10.0.0.32/31"))
	upwards := pool(t, "10.0.0.0/28 gw 10.0.0.9").Formerly(prefixes("10.0.0.8/29"))
	v6 := pool(t, "fd00::/64 gw fd00::9").Formerly(prefixes("fd00::8/125"))
	for _, tt := range []struct {
		p          Pool
		addr, want string
	}{
		{v4, "10.0.0.0", "is the network address"}, // still
		{v4, "10.0.0.7", "was the broadcast address in 10.0.0.0/29, a former CIDR"},
		{v4, "10.0.0.8", ""},
		{v4, "10.0.0.15", "was the broadcast address in 10.0.0.0/28, a former CIDR"},
		{v4, "10.0.0.32", ""}, // a /31 has no such address
		{v4, "10.0.0.33", ""},
		{v4, "10.0.0.255", "is the broadcast address"},
		{upwards, "10.0.0.7", ""},
		{upwards, "10.0.0.8", "was the network address in 10.0.0.8/29, a former CIDR"},
		{upwards, "10.0.0.9", "is the gateway"},
		{upwards, "10.0.0.15", "is the broadcast address"},
		{v6, "fd00::8", "was the subnet-router anycast address in fd00::8/125, a former CIDR"},
		{v6, "fd00::f", ""},
	} {
		t.Run(tt.addr, func(t *testing.T) {
			if got := tt.p.Refusal(netip.MustParseAddr(tt.addr)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// An address on request is not refused to a pod that asks for it. A pod that asks for any
// does not find it.
func TestPoolOnRequest(t *testing.T) {
	p := pool(t, "10.0.0.0/29 gw 10.0.0.1").OnRequest([]Range{{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")}})
	first, _ := p.First()
	got := fmt.Sprintf("%q, first %s, %d of %d", p.Refusal(netip.MustParseAddr("10.0.0.2")), first, p.ForAny(), p.Capacity())
	if want := `"", first 10.0.0.4, 3 of 5`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPoolNext(t *testing.T) {
	const v4 = "10.0.0.0/24 gw 10.0.0.1 10.0.0.2-10.0.0.9 10.0.0.200-10.0.0.255"
	for _, tt := range []struct{ pool, from, want string }{
		{v4, "0.0.0.0", "10.0.0.10"},
		{v4, "10.0.0.1", "10.0.0.10"},
		{v4, "10.0.0.10", "10.0.0.10"},
		{v4, "10.0.0.199", "10.0.0.199"},
		{v4, "10.0.0.200", "none"},
		{v4, "10.0.1.0", "none"},
		{v4, "::", "none"},
		{v4, "fd00::1", "none"},
		{"fd00::/64", "10.0.0.1", "none"},
		{"fd00::/64", "fd00::ffff:ffff:ffff:ffff", "fd00::ffff:ffff:ffff:ffff"},
		{"fd00::/64", "fd00::2%eth0", "none"},
	} {
		t.Run(tt.from, func(t *testing.T) {
			got := "none"
			if a, ok := pool(t, tt.pool).Next(netip.MustParseAddr(tt.from)); ok {
				got = a.String()
			}
			if got != tt.want {
				t.Errorf("%s\nfrom %s got %s, want %s", tt.pool, tt.from, got, tt.want)
			}
		})
	}
}

// The loop in the doc of Next ends at the end of the family.
func TestPoolWalkEnds(t *testing.T) {
	p := pool(t, "255.255.255.254/31")
	var got []string
	for a, ok := p.First(); ok && len(got) < 3; a, ok = p.Next(a.Next()) {
		got = append(got, a.String())
	}
	if want := "255.255.255.254 255.255.255.255"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestZeroPoolHandsOutNothing(t *testing.T) {
	for _, p := range []Pool{{}, NewPool(netip.Prefix{}, netip.Addr{}, nil)} {
		_, first := p.First()
		_, next := p.Next(netip.Addr{})
		if first || next || p.Capacity() != 0 || p.Refusal(netip.Addr{}) == "" {
			t.Errorf("%+v hands out an address", p)
		}
	}
}

func TestNewPoolLeavesItsArgumentAlone(t *testing.T) {
	addr := netip.MustParseAddr
	exclude := []Range{{addr("10.0.0.9"), addr("10.9.0.0")}, {addr("10.0.0.4"), addr("10.0.0.10")}}
	before := slices.Clone(exclude)
	NewPool(netip.MustParsePrefix("10.0.0.0/24"), addr("10.0.0.1"), exclude)
	if !slices.Equal(exclude, before) {
		t.Errorf("got %s, want %s", exclude, before)
	}
}

// Exclusions that no parser made must exclude no address that they do not contain.
func TestIllFormedExclusions(t *testing.T) {
	addr := netip.MustParseAddr
	p := NewPool(netip.MustParsePrefix("10.0.0.0/29"), netip.Addr{}, []Range{
		{}, {addr("10.0.0.5"), addr("10.0.0.2")}, {addr("10.0.0.2"), addr("fd00::")}, {Last: addr("10.0.0.3")},
	})
	if got := p.Capacity(); got != 6 {
		t.Errorf("got capacity %d, want 6", got)
	}
}

func TestHasAny(t *testing.T) {
	p := NewPool(netip.MustParsePrefix("10.0.0.0/28"), netip.MustParseAddr("10.0.0.1"), []Range{{netip.MustParseAddr("10.0.0.4"), netip.MustParseAddr("10.0.0.7")}})
	for _, tt := range []struct {
		first, last string
		want        bool
	}{
		{"10.0.0.0", "10.0.0.1", false}, {"10.0.0.0", "10.0.0.2", true}, {"10.0.0.4", "10.0.0.7", false}, {"10.0.0.3", "10.0.0.7", true},
		{"10.0.0.4", "10.0.0.8", true}, {"10.0.0.15", "10.0.0.255", false}, {"9.0.0.0", "11.0.0.0", true}, {"9.0.0.0", "9.9.9.9", false}, {"fd00::", "fd00::9", false},
	} {
		if got := p.HasAny(Range{netip.MustParseAddr(tt.first), netip.MustParseAddr(tt.last)}); got != tt.want {
			t.Errorf("%s-%s: %t", tt.first, tt.last, got)
		}
	}
}

// Compared with every address of both, one by one.
func TestPoolsOverlap(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	overlapping := 0
	random := func() Pool {
		var exclude []Range
		for range dice.IntN(4) {
			first := netip.AddrFrom4([4]byte{10, 0, 0, byte(dice.IntN(24))})
			exclude = append(exclude, Range{first, netip.AddrFrom4([4]byte{10, 0, 0, first.As4()[3] + byte(dice.IntN(8))})})
		}
		cidr := []string{"10.0.0.0/28", "10.0.0.16/29", "10.0.0.0/27", "10.0.0.12/30", "fd00::/64"}[dice.IntN(5)]
		return NewPool(netip.MustParsePrefix(cidr), netip.MustParseAddr("10.0.0.1"), exclude)
	}
	for range 2000 {
		p, q := random(), random()
		want := false
		for i := range 32 {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			want = want || p.Refusal(a) == "" && q.Refusal(a) == ""
		}
		if p.cidr.Addr().Is6() && q.cidr.Addr().Is6() {
			want = true
		}
		if want {
			overlapping++
		}
		if p.Overlaps(q) != want || q.Overlaps(p) != want {
			t.Fatalf("%+v and %+v: %t and %t, want %t", p, q, p.Overlaps(q), q.Overlaps(p), want)
		}
	}
	if overlapping < 200 || overlapping > 1800 {
		t.Errorf("%d of 2000 overlap", overlapping)
	}
}
