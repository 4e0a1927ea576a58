package dataplane

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/agent/cni"
)

func TestHostTable(t *testing.T) {
	s := state(t, "node n1 10.0.0.1 fd0a::1", "node n2 10.0.0.10 10.0.0.2", "node n3 10.0.0.2", "api 10.0.0.1:6443", "api [fd0a::1]:6443", "network blue 1001 192.168.0.0/16", "network green 65536 fd00::/64")
	expect(t, table(s).String(), `
		table inet pod2 {
			set api4 {
				type ipv4_addr . inet_service
				elements = { 10.0.0.1 . 6443 }
			}
			set api6 {
				type ipv6_addr . inet_service
				elements = { fd0a::1 . 6443 }
			}
			set nodes4 {
				type ipv4_addr
				elements = { 10.0.0.1,
					     10.0.0.2,
					     10.0.0.10 }
			}
			set nodes6 {
				type ipv6_addr
				elements = { fd0a::1 }
			}
			chain forward {
				type filter hook forward priority 0; policy accept;
				iifname "pod2gw" oifname "pod2gw" counter drop comment "network"
				iifname "pod2gw" ip daddr @nodes4 counter drop comment "node"
				iifname "pod2gw" ip6 daddr @nodes6 counter drop comment "node"
				iifname "pod2gw" meta l4proto tcp ip daddr . th dport @api4 counter drop comment "api"
				iifname "pod2gw" meta l4proto tcp ip6 daddr . th dport @api6 counter drop comment "api"
				iifname "pod2gw" meta l4proto tcp tcp flags syn tcp option maxseg size set rt mtu
				oifname "pod2gw" meta l4proto tcp tcp flags syn tcp option maxseg size set rt mtu
				iifname "pod2gw" ip saddr 100.64.0.0/16 ct state new,established,related accept
				iifname "pod2gw" ip6 saddr fd64:706f:6432::/96 ct state new,established,related accept
				iifname "pod2gw" counter drop comment "invalid"
				oifname "pod2gw" ct state established,related accept
				oifname "pod2gw" counter drop comment "inbound"
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 >= 65536 counter drop comment "vxlan"
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 >= 65536 counter drop comment "vxlan"
			}
			chain input {
				type filter hook input priority 0; policy accept;
				iifname "pod2gw" counter drop comment "node"
				ct state untracked ip saddr @nodes4 ip daddr @nodes4 meta l4proto udp th dport 4789 accept
				ct state untracked ip6 saddr @nodes6 ip6 daddr @nodes6 meta l4proto udp th dport 4789 accept
				meta l4proto udp th dport 4789 @th,96,24 >= 65536 counter drop comment "vxlan"
			}
			chain output {
				type filter hook output priority -300; policy accept;
				oifname "pod2gw" ip6 daddr ff00::/8 drop
				oifname "pod2gw" counter drop comment "inbound"
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 >= 65536 notrack
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 >= 65536 notrack
			}
			chain postrouting {
				type nat hook postrouting priority 100; policy accept;
				ip saddr 100.64.0.0/16 oifname != "pod2gw" masquerade
				ip6 saddr fd64:706f:6432::/96 oifname != "pod2gw" masquerade
			}
			chain prerouting {
				type filter hook prerouting priority -300; policy accept;
				iifname != "pod2gw" iifname "pod2*" counter drop comment "stranger"
				ip saddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 >= 65536 fib saddr . iif oif missing counter drop comment "vxlan"
				ip6 saddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 >= 65536 fib saddr . iif oif missing counter drop comment "vxlan"
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 >= 65536 notrack
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 >= 65536 notrack
			}
		}`)
}

// The comment of a rule is the reason that metrics and pod2-agent status show.
func TestEachCommentHasAMeaning(t *testing.T) {
	comments := map[string]bool{}
	for _, c := range table(State{Denied: []netip.Prefix{netip.MustParsePrefix("fd00::/8")}, VXLANReversePathFilter: true}).Chains {
		for _, rule := range c.Rules {
			if _, comment, ok := strings.Cut(rule, ` comment "`); ok {
				comments[strings.TrimSuffix(comment, `"`)] = true
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(comments)), slices.Sorted(maps.Keys(Meanings)); !slices.Equal(got, want) {
		t.Errorf("rules have the comments %q, and %q have a meaning", got, want)
	}
}

// Packets to a denied address are dropped before and after translation, and before any rule
// that lets packets of Networks out.
func TestDenied(t *testing.T) {
	is := table(State{UDPPort: 4789, Transit: netip.MustParsePrefix("100.64.0.0/16"), Denied: []netip.Prefix{
		netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.96.0.0/12")}})
	is.Sets = nil
	is.Chains = slices.DeleteFunc(is.Chains, func(c Chain) bool { return c.Name != "forward" && c.Name != "prerouting" })
	for i, c := range is.Chains {
		is.Chains[i].Rules = slices.DeleteFunc(c.Rules, func(rule string) bool {
			return !strings.HasPrefix(rule, `iifname "pod2gw"`) || strings.Contains(rule, "@")
		})
	}
	expect(t, is.String(), `
		table inet pod2 {
			chain forward {
				type filter hook forward priority 0; policy accept;
				iifname "pod2gw" oifname "pod2gw" counter drop comment "network"
				iifname "pod2gw" ip daddr 10.96.0.0/12 counter drop comment "denied"
				iifname "pod2gw" ip daddr 169.254.169.254/32 counter drop comment "denied"
				iifname "pod2gw" ip6 daddr fd00::/8 counter drop comment "denied"
				iifname "pod2gw" meta l4proto tcp tcp flags syn tcp option maxseg size set rt mtu
				iifname "pod2gw" ip saddr 100.64.0.0/16 ct state new,established,related accept
				iifname "pod2gw" ip6 saddr fd64:706f:6432::/96 ct state new,established,related accept
				iifname "pod2gw" counter drop comment "invalid"
			}
			chain prerouting {
				type filter hook prerouting priority -300; policy accept;
				iifname "pod2gw" ip daddr 10.96.0.0/12 counter drop comment "denied"
				iifname "pod2gw" ip daddr 169.254.169.254/32 counter drop comment "denied"
				iifname "pod2gw" ip6 daddr fd00::/8 counter drop comment "denied"
			}
		}`)
}

// If routes between nodes are not symmetrical, VXLAN may arrive at any interface.
func TestReversePathFilterOff(t *testing.T) {
	if got := table(State{UDPPort: 4789, Transit: netip.MustParsePrefix("100.64.0.0/16")}).String(); strings.Contains(got, "fib") {
		t.Error(got)
	}
}

// A port of a pod is closed without its program. The gateway has another name that begins alike.
func TestPortsAreClosed(t *testing.T) {
	chains := table(State{}).Chains
	prerouting := chains[slices.IndexFunc(chains, func(c Chain) bool { return c.Name == "prerouting" })]
	expect(t, prerouting.Rules[0], fmt.Sprintf("iifname != %q iifname \"%s*\" counter drop comment \"stranger\"", GatewayName, cni.InterfacePrefix))
}
