package attachment

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A request of a user is refused, or it has the same meaning after we rewrote it.
func FuzzParseRequests(f *testing.F) {
	for _, s := range []string{"", "blue", "blue, green=10.1.0.10", "v6 = FD00:0::10,", "a=::ffff:1.2.3.4%x", "a,a", "\xff=1.2.3.4", "a@net1,b@eth0=fd00::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		requests, err := ParseRequests(in)
		if err != nil {
			return
		}
		for i, r := range requests {
			if i > 0 && requests[i-1].Network >= r.Network {
				t.Errorf("not in name order, or a duplicate: %s", render(requests))
			}
			if len(validation.IsDNS1123Label(r.Network)) > 0 || r.Address.Is4In6() || r.Address.Zone() != "" || r.Interface != "" && !isInterface(r.Interface) {
				t.Errorf("accepted %s", render(requests))
			}
		}
		text := FormatRequests(requests)
		if back, err := ParseRequests(text); err != nil || !slices.Equal(back, requests) {
			t.Errorf("%s became %q and then %s, %v", render(requests), text, render(back), err)
		}
	})
}

func FuzzParseAddresses(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"a":null}`, `{"blue":{"address":"192.168.0.2/16","gateway":"192.168.0.1","mac":"0a:58:c0:a8:00:02"}}`,
		`{"v6":{"address":"fd00::2/64","gateway":"fe80::1%eth0","mac":"\ud800<"}}`, `{"a":{"Address":"::ffff:1.2.3.4/120"}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		addresses, err := ParseAddresses(in)
		if err != nil {
			return
		}
		text := FormatAddresses(addresses)
		if back, err := ParseAddresses(text); err != nil || !maps.Equal(back, addresses) {
			t.Errorf("%v became %s and then %v, %v", addresses, text, back, err)
		}
	})
}

func FuzzAppendMultus(f *testing.F) {
	for _, s := range []string{
		"", "a, ns/b@eth1", "a@net2,b", "/@", `[]`, `[null]`, `[{"name":"a","interface":"net2","x":{"y":1e400}}]`,
		`[{"name":"blue","ips":["192.168.0.2/16"]}]`, `[{"NAME":"\ud800","name":"<"}]`, `{"name":"a"}`,
	} {
		f.Add(s)
	}
	add := []Element{element("blue", "192.168.0.2/16"), element("v6@net3", "fd00::2/64")}
	f.Fuzz(func(t *testing.T, existing string) {
		result, err := appendTo(existing, "default", add...)
		if err != nil {
			return
		}
		if broken := checkMultus(existing, add, result); broken != "" {
			t.Errorf("%s: %s", result, broken)
		}
	})
}
