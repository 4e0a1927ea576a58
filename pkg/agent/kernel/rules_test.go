//go:build linux && kernel

package kernel

import (
	"fmt"
	"net/netip"
	"testing"
)

// The kernel's rules say which addresses no pod of a Network reaches. Rules about VXLAN, and about the addresses of
// senders, are not among them.
func TestRefuses(t *testing.T) {
	n := newNode(t)
	n.apply(t)
	var rules Rules
	n.in(t, func() (err error) { rules, err = ReadRules(); return err })
	for to, want := range map[string]string{
		"10.0.0.1":        "[node api]",
		"fd0a::1":         "[node api denied]", // fd00::/8 is denied
		"10.0.0.2":        "[]",
		"169.254.169.254": "[denied]",
		"169.254.169.255": "[]",
		"10.111.255.255":  "[denied]",
		"10.112.0.0":      "[denied]", // where another interval ends
		"10.120.0.0":      "[]",
		"253.0.0.1":       "[]", // the bytes of fd00:1::, which is denied
		"fe00::1":         "[]",
		"100.64.0.7":      "[]",
	} {
		if got := fmt.Sprint(rules.Refuses(netip.MustParseAddr(to))); got != want {
			t.Errorf("%s: got %s, want %s", to, got, want)
		}
	}
}

func TestRefusesWithoutRules(t *testing.T) {
	n := newNode(t)
	n.in(t, func() error {
		rules, err := ReadRules()
		if got := rules.Refuses(netip.MustParseAddr("10.0.0.1")); len(got) > 0 || len(rules.Drops()) > 0 {
			t.Errorf("got %v", got)
		}
		return err
	})
}

// An interval up to the last address has no end. The kernel returns it as it was written.
func TestEverythingIsDenied(t *testing.T) {
	n := newNode(t)
	for i, s := range n.want.Table.Sets {
		if s.Interval {
			n.want.Table.Sets[i].Prefixes = []netip.Prefix{netip.MustParsePrefix(map[string]string{"denied4": "0.0.0.0/0", "denied6": "::/0"}[s.Name])}
		}
	}
	n.apply(t)
	if again := n.apply(t); again != "" {
		t.Errorf("another sync changes\n%s", again)
	}
	n.in(t, func() error {
		rules, err := ReadRules()
		for _, to := range []string{"0.0.0.0", "255.255.255.255", "::", "fe80::1"} {
			if got := fmt.Sprint(rules.Refuses(netip.MustParseAddr(to))); got != "[denied]" {
				t.Errorf("%s: got %s", to, got)
			}
		}
		return err
	})
}
