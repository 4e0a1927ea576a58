package attachment

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/test/chance"
)

func bound(prefix, gateway string) Address {
	a := Address{Address: netip.MustParsePrefix(prefix)}
	if gateway != "" {
		a.Gateway = netip.MustParseAddr(gateway)
	}
	a.MAC = ipam.MAC(a.Address.Addr())
	return a
}

// The text is a contract: CNI plugins and people read it.
func TestFormatAddresses(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   map[string]Address
		want string
	}{
		{"IPv4", map[string]Address{"blue": bound("192.168.0.2/16", "192.168.0.1")},
			`{"blue":{"address":"192.168.0.2/16","gateway":"192.168.0.1","mac":"0a:58:c0:a8:00:02"}}`},
		{"IPv6", map[string]Address{"v6": bound("fd00::2/64", "fd00::1")},
			`{"v6":{"address":"fd00::2/64","gateway":"fd00::1","mac":"0a:58:00:00:00:02"}}`},
		{"no gateway", map[string]Address{"one": bound("10.0.0.1/32", "")},
			`{"one":{"address":"10.0.0.1/32","mac":"0a:58:0a:00:00:01"}}`},
		{"in name order", map[string]Address{"b": bound("10.0.0.1/32", ""), "a": bound("10.0.0.2/32", "")},
			`{"a":{"address":"10.0.0.2/32","mac":"0a:58:0a:00:00:02"},"b":{"address":"10.0.0.1/32","mac":"0a:58:0a:00:00:01"}}`},
		{"none", nil, `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := FormatAddresses(tt.in)
			if text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
			back, err := ParseAddresses(text)
			if err != nil || !maps.Equal(back, tt.in) {
				t.Errorf("%s reads back as %v, %v", text, back, err)
			}
		})
	}
}

// Both ways to read the annotation give the same addresses.
func TestFormattedAddressesReadAsJSON(t *testing.T) {
	formatted := 0
	chance.ForSeeds(t, 20_000, func(t *testing.T, dice *rand.Rand) {
		addresses := map[string]Address{}
		for range dice.IntN(4) {
			addresses[chance.Pick(dice, "blue", "green", `a"b`, `a\b`, "é", "<", "")] = bound(
				chance.Pick(dice, "10.0.0.2/24", "fd00::2/64", "::ffff:10.0.0.2/120"), chance.Pick(dice, "", "10.0.0.1", "fe80::1%eth0"))
		}
		text := []byte(FormatAddresses(addresses))
		for range dice.IntN(3) { // the text of another program
			at := dice.IntN(len(text))
			text = slices.Replace(text, at, at+dice.IntN(2), []byte(chance.Pick(dice, "", `"`, ",", "{", "}", " ", `\`, "\x00", "0"))...)
		}
		got, ok := parseFormatted(string(text))
		if !ok {
			return
		}
		if len(got) > 0 {
			formatted++
		}
		var want map[string]Address
		if err := json.Unmarshal(text, &want); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s reads as %v, want %v, %v", text, got, want, err)
		}
	})
	if formatted < 300 {
		t.Errorf("%d texts are formatted: too few to prove anything", formatted)
	}
}

func TestParseAddressesIgnoresWhatALaterVersionAdds(t *testing.T) {
	text := `{"blue":{"address":"10.0.0.2/24","gateway":"10.0.0.1","mac":"0a:58:0a:00:00:02","mtu":1500}}`
	addresses, err := ParseAddresses(text)
	if err != nil || addresses["blue"] != bound("10.0.0.2/24", "10.0.0.1") {
		t.Errorf("%s reads as %v, %v", text, addresses, err)
	}
}

func TestParseAddressesRefuses(t *testing.T) {
	const notJSON = `is not a JSON object from Network to address such as {"blue":{"address":"192.168.0.2/16"}}; the controller writes it, do not change it: `
	const leave = `: the controller writes it, do not change it`
	for _, tt := range []struct{ in, want string }{
		{"", notJSON + "unexpected end of JSON input"},
		{"[]", notJSON + "json: cannot unmarshal array into Go value of type map[string]attachment.Address"},
		{`{"blue":{"address":"10.0.0.2"}}`, notJSON + `netip.ParsePrefix("10.0.0.2"): no '/'`},
		{`{"blue":{"address":"10.0.0.2/24","gateway":"x"}}`, notJSON + `ParseAddr("x"): unable to parse IP`},
		{"null", "is null" + leave},
		{`{"blue":{}}`, `has no address for Network "blue"` + leave},
		{`{"blue":null}`, `has no address for Network "blue"` + leave},
		{`{"blue":{"address":"::ffff:10.0.0.2/120"}}`, `has the IPv4-mapped address ::ffff:10.0.0.2/120 for Network "blue"` + leave},
	} {
		t.Run(tt.in, func(t *testing.T) {
			addresses, err := ParseAddresses(tt.in)
			if err == nil {
				t.Fatalf("accepted as %v", addresses)
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

func TestAddressesRoundTrip(t *testing.T) {
	r := seeded(t)
	for range 2000 {
		want := map[string]Address{}
		for _, name := range names(r, 0) {
			a := address(r)
			published := Address{Address: netip.PrefixFrom(a, r.IntN(a.BitLen()+1)), MAC: ipam.MAC(a)}
			if r.IntN(2) == 0 {
				published.Gateway = address(r)
			}
			want[name] = published
		}
		text := FormatAddresses(want)
		back, err := ParseAddresses(text)
		if err != nil || !maps.Equal(back, want) {
			t.Fatalf("%v became %s and then %v, %v", want, text, back, err)
		}
	}
}
