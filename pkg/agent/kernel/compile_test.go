//go:build linux

package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// tables are all tables of dataplane for a node with a Network of each kind.
func tables(t *testing.T) []dataplane.Table {
	t.Helper()
	s := dataplane.State{Node: "n1", UDPPort: 4789, VXLANReversePathFilter: true, Transit: netip.MustParsePrefix("100.64.0.0/16"),
		Nodes:      []dataplane.Node{{Name: "n1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd0a::1")}}},
		Denied:     []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("fd00::/8")},
		APIServers: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:6443"), netip.MustParseAddrPort("[fd0a::1]:6443")},
		Here:       []int32{1, 2},
		Host:       dataplane.Host{{Links: []dataplane.Link{{Name: "veth1", Kind: "veth", Master: "nw1"}}}}}
	for i, cidr := range []string{"192.168.0.0/16", "fd00::/64"} {
		p := netip.MustParsePrefix(cidr)
		s.Networks = append(s.Networks, dataplane.Network{Namespace: "default", Name: fmt.Sprint(i), VNI: int32(i + 1), CIDR: p, Gateway: p.Addr().Next(), MTU: 1450, Egress: true})
	}
	want, _, ok := dataplane.Want(s)
	if !ok {
		t.Fatal("nothing is wanted")
	}
	var all []dataplane.Table
	for _, ns := range want {
		all = append(all, ns.Tables...)
	}
	if len(all) != 3 {
		t.Fatalf("%d tables", len(all))
	}
	return all
}

// Packages dataplane and kernel must agree: every rule and hook compiles, and is recognized
// by the text that is stored with it, but not after a change.
func TestRulesOfDataplane(t *testing.T) {
	for _, table := range tables(t) {
		family := families[table.Family]
		for _, chain := range table.Chains {
			c, err := newChain(&nftables.Table{Family: family}, chain)
			if err != nil {
				t.Error(err)
			} else if got := hookText(c); got != chain.Hook {
				t.Errorf("chain %s: got %q, want %q", chain.Name, got, chain.Hook)
			}
			for _, text := range chain.Rules {
				exprs, err := compile(text)
				if err != nil {
					t.Error(err)
					continue
				}
				rule := &nftables.Rule{Exprs: exprs, UserData: userdata.Append(userdata.AppendString(nil, userdata.TypeComment, "x"), textOfRule, []byte(text))}
				if got := ruleText(family, rule); got != text {
					t.Errorf("got %q, want %q", got, text)
				}
				rule.Exprs = exprs[1:]
				if got := ruleText(family, rule); got != "changed: "+text {
					t.Errorf("changed, got %q", got)
				}
				if len(rule.UserData) > 256 {
					t.Errorf("%q is longer than a rule can store", text)
				}
			}
		}
		for _, set := range table.Sets {
			var elements []nftables.SetElement
			for _, text := range set.Elements {
				key, err := elementKey(set.Type, text)
				if err != nil {
					t.Errorf("set %s: %s: %v", set.Name, text, err)
				}
				elements = append(elements, nftables.SetElement{Key: key})
			}
			if got, want := strings.Join(elementTexts(set.Type, elements), "\n"), strings.Join(set.Elements, "\n"); got != want || want == "" {
				t.Errorf("set %s: got\n%s\nwant\n%s", set.Name, got, want)
			}
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, rule := range []string{"nonsense", "iifname", "ip saddr blue accept", "iifname . @ports drop", "ip saddr != @nodes4 drop", "tcp option maxseg size set x", "@th,96,24 >= 16777216 drop", "ether saddr"} {
		if exprs, err := compile(rule); err == nil {
			t.Errorf("%q is %v", rule, exprs)
		}
	}
	for kind, text := range map[string]string{"ipv4_addr": "fd00::1", "ipv4_addr . inet_service": "10.0.0.1", "inet_service": "-1", "integer": "16777216", "ipv6_addr": "1.2.3.4"} {
		if key, err := elementKey(kind, text); err == nil {
			t.Errorf("%s %s is %x", kind, text, key)
		}
	}
}

// In an inet table, a rule for one family must not look into packets of the other.
func TestFamilyComesFirst(t *testing.T) {
	for rule, want := range map[string]byte{"ip saddr 10.0.0.1": unix.NFPROTO_IPV4, "ip6 daddr @nodes6": unix.NFPROTO_IPV6} {
		exprs, err := compile(rule)
		if err != nil {
			t.Fatal(err)
		}
		key, isMeta := exprs[0].(*expr.Meta)
		family, isCmp := exprs[1].(*expr.Cmp)
		if !isMeta || key.Key != expr.MetaKeyNFPROTO || !isCmp || !slices.Equal(family.Data, []byte{want}) {
			t.Errorf("%s begins with %v, %v", rule, exprs[0], exprs[1])
		}
	}
}

// An error names the problem, and wraps a cause only if there is one.
func TestElementOfTheOtherFamily(t *testing.T) {
	_, err := elementKey("ipv4_addr", "fd00::1")
	if got, want := fmt.Sprint(err), "fd00::1 is not of type ipv4_addr: it belongs to the other family"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// User data of other programs may hold any bytes.
func TestUserData(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, {0, 5, 1}, {byte(textOfRule), 200}, {1, 0, byte(textOfRule), 1}} {
		if got := ruleText(nftables.TableFamilyINet, &nftables.Rule{UserData: b}); got != "not ours" {
			t.Errorf("%v: %q", b, got)
		}
	}
}
