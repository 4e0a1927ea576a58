//go:build linux

package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// table of dataplane for a node with a Network of each kind.
func table(t *testing.T, nodes ...string) dataplane.Table {
	t.Helper()
	s := dataplane.State{Node: "n1", UDPPort: 4789, VXLANReversePathFilter: true, Transit: netip.MustParsePrefix("100.64.0.0/16"),
		Self:       []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd0a::1")},
		Denied:     []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.112.0.0/13"), netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("fd00::/8")},
		APIServers: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:6443"), netip.MustParseAddrPort("[fd0a::1]:6443")}}
	for _, a := range nodes {
		s.Nodes = append(s.Nodes, netip.MustParseAddr(a))
	}
	for i, cidr := range []string{"192.168.0.0/16", "fd00::/64"} {
		p := netip.MustParsePrefix(cidr)
		s.Networks = append(s.Networks, dataplane.Network{Namespace: "default", Name: fmt.Sprint(i), VNI: int32(i + 1), CIDR: p, Gateway: p.Addr().Next(), MTU: 1450, Egress: true})
	}
	want, err := dataplane.Want(s)
	if err != nil {
		t.Fatal(err)
	}
	return want.Table
}

// Packages dataplane and kernel must agree: every set, rule and hook compiles. Each change has another fingerprint.
func TestTableOfDataplane(t *testing.T) {
	compiled := func() content {
		c, err := compileTable(table(t))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	want := compiled().fingerprint()
	for name, change := range map[string]func(c *content){
		"flags":      func(c *content) { c.flags = 1 },
		"a chain":    func(c *content) { c.chains = c.chains[1:] },
		"a hook":     func(c *content) { c.chains[0].Hooknum = nftables.ChainHookPostrouting },
		"a priority": func(c *content) { c.chains[0].Priority = nftables.ChainPriorityLast },
		"a policy":   func(c *content) { *c.chains[0].Policy = nftables.ChainPolicyDrop },
		"a rule":     func(c *content) { c.rules["forward"] = c.rules["forward"][1:] },
		"order":      func(c *content) { slices.Reverse(c.rules["forward"]) },
		"a verdict":  func(c *content) { c.rules["input"][0].Exprs[3] = &expr.Verdict{Kind: expr.VerdictAccept} },
		"a comment":  func(c *content) { c.rules["input"][0].UserData = nil },
		"a set":      func(c *content) { c.sets = c.sets[1:] },
		"an end":     func(c *content) { c.elements["denied4"][0].IntervalEnd = true },
		"a goto": func(c *content) {
			c.rules["forward"][0].Exprs[2] = &expr.Verdict{Kind: expr.VerdictGoto, Chain: "inbound"}
		},
		"an element":   func(c *content) { c.elements["nodes4"][0].Key[2]++ },
		"one too many": func(c *content) { c.elements["nodes4"] = append(c.elements["nodes4"], c.elements["nodes4"][0]) },
	} {
		c := compiled()
		change(&c)
		if c.fingerprint() == want {
			t.Errorf("%s: the fingerprint is the same", name)
		}
	}
	c := compiled()
	c.rules["input"][0].Exprs[2] = &expr.Counter{Packets: 7, Bytes: 7}
	if c.fingerprint() != want {
		t.Error("counters have another fingerprint")
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, rule := range []string{"nonsense", "iifname", "ip saddr blue accept", "iifname . @ports drop", "ip saddr != @nodes4 drop", "@th,96,24 >= 16777216 drop", "th dport 65536", "iifname 5", "ether saddr"} {
		if exprs, err := compile(rule); err == nil {
			t.Errorf("%q is %v", rule, exprs)
		}
	}
}

// The address and the port take whole registers each.
func TestElementKeys(t *testing.T) {
	c, err := compileTable(table(t))
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]string{
		"api4":   "0a000001192b0000",
		"api6":   "fd0a0000000000000000000000000001192b0000",
		"nodes4": "0a000001",
		"nodes6": "fd0a0000000000000000000000000001",
	} {
		if got := fmt.Sprintf("%x", c.elements[set][0].Key); got != want {
			t.Errorf("%s: got %s, want %s", set, got, want)
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

// User data of other programs may hold any bytes.
func TestUserData(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, {0, 5, 1}, {1, 0, 0, 1}} {
		if got := comment(&nftables.Rule{UserData: b}); got != "" {
			t.Errorf("%v: %q", b, got)
		}
	}
}
