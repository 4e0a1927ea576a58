package attachment

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func render(requests []Request) string {
	var b strings.Builder
	for _, r := range requests {
		address := "any"
		if r.Address.IsValid() {
			address = r.Address.String()
		}
		if r.Interface != "" {
			address = r.Interface + ", " + address
		}
		fmt.Fprintf(&b, "{%s, %s}", r.Network, address)
	}
	return b.String()
}

func TestParseRequests(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"blue", "{blue, any}"},
		{"green=10.1.0.10, blue", "{blue, any}{green, 10.1.0.10}"},
		{"v6 = FD00:0::10", "{v6, fd00::10}"},
		{"blue,\n  green\n", "{blue, any}{green, any}"},
		{"0-9", "{0-9, any}"},
		{"green@net9, blue @ eth0 = 10.1.0.10", "{blue, eth0, 10.1.0.10}{green, net9, any}"},
		{strings.Repeat("n", 63), "{" + strings.Repeat("n", 63) + ", any}"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			got, err := ParseRequests(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if r := render(got); r != tt.want {
				t.Errorf("got %s, want %s", r, tt.want)
			}
		})
	}
}

func TestParseRequestsRefuses(t *testing.T) {
	const notAName = `does not begin with the name of a Network (at most 63 lower-case letters, digits and '-', with a letter or digit at both ends); separate Networks by commas`
	const notAnInterface = `names no valid interface after the '@' (at most 15 letters, digits, '-', '_' and '.', beginning with a letter or digit, and not lo): write for example a@net1`
	for _, tt := range []struct{ in, want string }{
		{"", `names no Network: write the names of Networks of the pod's namespace, separated by commas, for example "blue" or "blue, green=10.1.0.10"`},
		{" \n", `names no Network: write the names of Networks of the pod's namespace, separated by commas, for example "blue" or "blue, green=10.1.0.10"`},
		{"blue, ", `element 2 ("") is empty: remove the comma, or write the name of a Network`},
		{"Blue", `element 1 ("Blue") ` + notAName},
		{"blue green", `element 1 ("blue green") ` + notAName},
		{"blue.green", `element 1 ("blue.green") ` + notAName},
		{"a, -b", `element 2 ("-b") ` + notAName},
		{"=10.1.0.10", `element 1 ("=10.1.0.10") ` + notAName},
		{strings.Repeat("n", 64), `element 1 ("` + strings.Repeat("n", 64) + `") ` + notAName},
		{"a=10.1.0.10, blue, a", `element 3 ("a") names Network a again after element 1: a pod can join a Network only once, remove one of the two`},
		{"a@net1, b@net2, c@net1", `element 3 ("c@net1") names interface net1 again after element 1: name another, or none`},
		{"a@", `element 1 ("a@") ` + notAnInterface},
		{"a@lo", `element 1 ("a@lo") ` + notAnInterface},
		{"a@.b", `element 1 ("a@.b") ` + notAnInterface},
		{"a@net1/b", `element 1 ("a@net1/b") ` + notAnInterface},
		{"a@b@c", `element 1 ("a@b@c") ` + notAnInterface},
		{"a@0123456789abcdef", `element 1 ("a@0123456789abcdef") ` + notAnInterface},
		{"a=", `element 1 ("a=") does not end with an IP address: write a for any address, or one address without prefix length as in a=10.1.0.10 or a=fd00::10: ParseAddr(""): unable to parse IP`},
		{"a=10.1.0.10/16", `element 1 ("a=10.1.0.10/16") does not end with an IP address: write a for any address, or one address without prefix length as in a=10.1.0.10 or a=fd00::10: ParseAddr("10.1.0.10/16"): unexpected character (at "/16")`},
		{"a=::ffff:10.1.0.10", `element 1 ("a=::ffff:10.1.0.10") has an IPv4-mapped IPv6 address: write a=10.1.0.10`},
		{"a=::ffff:10.1.0.10%eth0", `element 1 ("a=::ffff:10.1.0.10%eth0") has an IPv4-mapped IPv6 address: write a=10.1.0.10`},
		{"a=fd00::10%eth0", `element 1 ("a=fd00::10%eth0") has an address with a zone, which is not allowed: write a=fd00::10`},
		{"a=" + strings.Repeat("1", 46), `element 1 ("a=` + strings.Repeat("1", 46) + `") does not end with an IP address: write a for any address, or one address as in a=10.1.0.10 or a=fd00::10`},
	} {
		t.Run(tt.in, func(t *testing.T) {
			got, err := ParseRequests(tt.in)
			if err == nil {
				t.Fatalf("accepted as %s", render(got))
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

// An event holds 1,024 bytes, and the API server refuses a longer one.
func TestParseRequestsErrorFitsAnEvent(t *testing.T) {
	long := strings.Repeat("\u200b", 100_000) // each is six bytes when quoted
	for _, in := range []string{long, "a=" + long, "a=fd00::1%" + long[:30], strings.Repeat(",", 100_000)} {
		if _, err := ParseRequests(in); err == nil || len(err.Error()) > 900 {
			t.Errorf("%.20q: error of %d bytes: %.1000s", in, len(fmt.Sprint(err)), err)
		}
	}
}

func TestFormatRequests(t *testing.T) {
	requests := []Request{{"v6", "", netip.MustParseAddr("FD00:0::10")}, {"green", "net2", netip.MustParseAddr("10.1.0.10")}, {"blue", "eth0", netip.Addr{}}}
	before := slices.Clone(requests)
	if got, want := FormatRequests(requests), "blue@eth0, green@net2=10.1.0.10, v6=fd00::10"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Equal(requests, before) {
		t.Errorf("FormatRequests reordered its argument: %s", render(requests))
	}
}

func TestRequestsRoundTrip(t *testing.T) {
	r := seeded(t)
	for range 2000 {
		var want []Request
		for _, name := range names(r, 1) {
			request := Request{Network: name}
			if r.IntN(2) == 0 {
				request.Address = address(r)
			}
			if r.IntN(2) == 0 {
				request.Interface = "if-" + name[:min(len(name), 12)]
			}
			want = append(want, request)
		}
		slices.SortFunc(want, byNetwork)
		text := FormatRequests(want)
		got, err := ParseRequests(text)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s became %q and then %s, %v", render(want), text, render(got), err)
		}
	}
}

// seeded returns dice with a seed that a failure prints.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// names returns at least the given number of distinct names, in no order.
func names(r *rand.Rand, atLeast int) []string {
	all := []string{"a", "b", "a-b", "a0", "0", "net1", "blue", "green", "blue-2", strings.Repeat("x", 63)}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:atLeast+r.IntN(len(all)-atLeast)]
}

// address returns an address of either family, but no IPv4-mapped one: those are refused.
func address(r *rand.Rand) netip.Addr {
	var b [16]byte
	for i := range b {
		b[i] = byte(r.IntN(256) * r.IntN(2)) // zeros, for "::"
	}
	b[0] = 0xfd
	if r.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}
