package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/agent/cni"
)

func TestHostTable(t *testing.T) {
	s := state(t, "node n1 10.0.0.1 fd0a::1", "node n2 10.0.0.2", "api 10.0.0.1:6443", "api [fd0a::1]:6443", "network blue 1001 192.168.0.0/16", "network green 65536 fd00::/64")
	expect(t, hostTable(s).String(), `
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
					     10.0.0.2 }
			}
			set nodes6 {
				type ipv6_addr
				elements = { fd0a::1 }
			}
			chain forward {
				type filter hook forward priority 0; policy accept;
				iifname "wn*" oifname "wn*" counter drop comment "network"
				iifname "wn*" ip daddr @nodes4 counter drop comment "node"
				iifname "wn*" ip6 daddr @nodes6 counter drop comment "node"
				iifname "wn*" meta l4proto tcp ip daddr . th dport @api4 counter drop comment "api"
				iifname "wn*" meta l4proto tcp ip6 daddr . th dport @api6 counter drop comment "api"
				iifname "wn*" accept
				oifname "wn*" ct state established,related accept
				oifname "wn*" counter drop comment "inbound"
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 >= 65536 counter drop comment "vxlan"
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 >= 65536 counter drop comment "vxlan"
			}
			chain input {
				type filter hook input priority 0; policy accept;
				iifname "wn*" icmpv6 type nd-neighbor-solicit accept
				iifname "wn*" icmpv6 type nd-neighbor-advert accept
				iifname "wn*" counter drop comment "node"
				ct state untracked ip saddr @nodes4 ip daddr @nodes4 meta l4proto udp th dport 4789 accept
				ct state untracked ip6 saddr @nodes6 ip6 daddr @nodes6 meta l4proto udp th dport 4789 accept
				meta l4proto udp th dport 4789 @th,96,24 >= 65536 counter drop comment "vxlan"
			}
			chain output {
				type filter hook output priority -300; policy accept;
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 >= 65536 notrack
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 >= 65536 notrack
			}
			chain postrouting {
				type nat hook postrouting priority 100; policy accept;
				ip saddr 100.64.0.0/16 oifname != "wn*" masquerade
				ip6 saddr fd64:706f:6432::/96 oifname != "wn*" masquerade
			}
			chain prerouting {
				type filter hook prerouting priority -300; policy accept;
				iifname "pod2*" counter drop comment "stranger"
				iifname "rt*" counter drop comment "stranger"
				ip saddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 >= 65536 fib saddr . iif oif missing counter drop comment "vxlan"
				ip6 saddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 >= 65536 fib saddr . iif oif missing counter drop comment "vxlan"
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 >= 65536 notrack
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 >= 65536 notrack
			}
		}`)
}

// Packets to a denied address are dropped before and after translation, and before any rule
// that lets packets of Networks out.
func TestDenied(t *testing.T) {
	table := hostTable(State{UDPPort: 4789, Transit: netip.MustParsePrefix("100.64.0.0/16"), Denied: []netip.Prefix{
		netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.96.0.0/12")}})
	table.Sets = nil
	table.Chains = slices.DeleteFunc(table.Chains, func(c Chain) bool { return c.Name != "forward" && c.Name != "prerouting" })
	for i, c := range table.Chains {
		table.Chains[i].Rules = slices.DeleteFunc(c.Rules, func(rule string) bool {
			return !strings.HasPrefix(rule, `iifname "wn*"`) || strings.Contains(rule, "@")
		})
	}
	expect(t, table.String(), `
		table inet pod2 {
			chain forward {
				type filter hook forward priority 0; policy accept;
				iifname "wn*" oifname "wn*" counter drop comment "network"
				iifname "wn*" ip daddr 10.96.0.0/12 counter drop comment "denied"
				iifname "wn*" ip daddr 169.254.169.254/32 counter drop comment "denied"
				iifname "wn*" ip6 daddr fd00::/8 counter drop comment "denied"
				iifname "wn*" accept
			}
			chain prerouting {
				type filter hook prerouting priority -300; policy accept;
				iifname "wn*" icmpv6 type nd-neighbor-solicit accept
				iifname "wn*" icmpv6 type nd-neighbor-advert accept
				iifname "wn*" ip daddr 10.96.0.0/12 counter drop comment "denied"
				iifname "wn*" ip daddr 169.254.169.254/32 counter drop comment "denied"
				iifname "wn*" ip6 daddr fd00::/8 counter drop comment "denied"
			}
		}`)
}

// If routes between nodes are not symmetrical, VXLAN may arrive at any interface.
func TestReversePathFilterOff(t *testing.T) {
	if got := hostTable(State{UDPPort: 4789, Transit: netip.MustParsePrefix("100.64.0.0/16")}).String(); strings.Contains(got, "fib") {
		t.Error(got)
	}
}

func TestRouterTable(t *testing.T) {
	expect(t, routerTable(state(t, "network v6 1 fd00::/64 none mtu=1430").Networks[0]).String(), `
		table inet pod2 {
			chain forward {
				type filter hook forward priority 0; policy drop;
				tcp flags syn / syn,rst tcp option maxseg size set 1370
			}
			chain input {
				type filter hook input priority 0; policy drop;
				ct state established,related accept
				meta l4proto icmp accept
				meta l4proto ipv6-icmp accept
			}
			chain postrouting {
				type nat hook postrouting priority 100; policy accept;
				oifname "wan" masquerade
			}
		}`)
}

// A port of a pod or of a router is closed without its program.
func TestPortsAreClosed(t *testing.T) {
	chains := hostTable(State{}).Chains
	prerouting := chains[slices.IndexFunc(chains, func(c Chain) bool { return c.Name == "prerouting" })]
	expect(t, strings.Join(prerouting.Rules[:2], "\n"), fmt.Sprintf("iifname \"%s*\" counter drop comment \"stranger\"\niifname \"%s*\" counter drop comment \"stranger\"",
		cni.InterfacePrefix, routerPrefix))
}
