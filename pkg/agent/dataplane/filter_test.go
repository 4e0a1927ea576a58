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
			set denied4 {
				type ipv4_addr
				flags interval
			}
			set denied6 {
				type ipv6_addr
				flags interval
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
				iifname "pod2gw" goto outbound
				ip saddr 100.64.0.0/16 counter drop comment "inbound"
				ip6 saddr fd64:706f:6432::/96 counter drop comment "inbound"
				oifname "pod2gw" goto inbound
				meta l4proto udp th dport 4789 @th,96,24 >= 65536 ip daddr @nodes4 counter drop comment "vxlan"
				meta l4proto udp th dport 4789 @th,96,24 >= 65536 ip6 daddr @nodes6 counter drop comment "vxlan"
			}
			chain outbound {
				oifname "pod2gw" counter drop comment "network"
				ip daddr @nodes4 counter drop comment "node"
				ip6 daddr @nodes6 counter drop comment "node"
				meta l4proto tcp ip daddr . th dport @api4 counter drop comment "api"
				meta l4proto tcp ip6 daddr . th dport @api6 counter drop comment "api"
				ip daddr @denied4 counter drop comment "denied"
				ip6 daddr @denied6 counter drop comment "denied"
				meta l4proto tcp tcp flags syn tcp option maxseg size set rt mtu
				ip saddr 100.64.0.0/16 ct state new,established,related accept
				ip6 saddr fd64:706f:6432::/96 ct state new,established,related accept
				counter drop comment "invalid"
			}
			chain inbound {
				meta l4proto tcp tcp flags syn tcp option maxseg size set rt mtu
				ct state established,related accept
				counter drop comment "inbound"
			}
			chain input {
				type filter hook input priority 0; policy accept;
				iifname "pod2gw" counter drop comment "node"
				meta l4proto udp th dport 4789 ct state untracked ip saddr @nodes4 ip daddr @nodes4 accept
				meta l4proto udp th dport 4789 ct state untracked ip6 saddr @nodes6 ip6 daddr @nodes6 accept
				meta l4proto udp th dport 4789 @th,96,24 >= 65536 counter drop comment "vxlan"
			}
			chain output {
				type filter hook output priority -300; policy accept;
				oifname "pod2gw" ip6 daddr ff00::/8 drop
				oifname "pod2gw" counter drop comment "inbound"
				ip saddr 100.64.0.0/16 counter drop comment "inbound"
				ip6 saddr fd64:706f:6432::/96 counter drop comment "inbound"
				meta l4proto udp th dport 4789 @th,96,24 >= 65536 ip daddr @nodes4 notrack
				meta l4proto udp th dport 4789 @th,96,24 >= 65536 ip6 daddr @nodes6 notrack
			}
			chain postrouting {
				type nat hook postrouting priority 100; policy accept;
				ip saddr 100.64.0.0/16 oifname != "pod2gw" masquerade
				ip6 saddr fd64:706f:6432::/96 oifname != "pod2gw" masquerade
			}
			chain prerouting {
				type filter hook prerouting priority -300; policy accept;
				iifname "pod2*" goto ports
				meta l4proto udp th dport 4789 @th,96,24 >= 65536 goto vxlan
			}
			chain ports {
				iifname != "pod2gw" counter drop comment "stranger"
				ip daddr @denied4 counter drop comment "denied"
				ip6 daddr @denied6 counter drop comment "denied"
			}
			chain vxlan {
				ip saddr @nodes4 fib saddr . iif oif missing counter drop comment "vxlan"
				ip6 saddr @nodes6 fib saddr . iif oif missing counter drop comment "vxlan"
				ip daddr @nodes4 notrack
				ip6 daddr @nodes6 notrack
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

// A set of intervals takes no prefix that another one contains.
func TestDenied(t *testing.T) {
	var denied []netip.Prefix
	for _, text := range []string{"fd00::/8", "169.254.169.254/32", "10.96.0.0/12", "10.96.0.0/12", "10.100.0.0/16", "169.254.0.0/17", "10.112.0.0/12"} {
		denied = append(denied, netip.MustParsePrefix(text))
	}
	sets := table(State{Denied: denied}).Sets
	sets = slices.DeleteFunc(sets, func(s Set) bool { return !s.Interval })
	expect(t, Table{Sets: sets}.String(), `
		table inet pod2 {
			set denied4 {
				type ipv4_addr
				flags interval
				elements = { 10.96.0.0/12,
					     10.112.0.0/12,
					     169.254.0.0/17,
					     169.254.169.254 }
			}
			set denied6 {
				type ipv6_addr
				flags interval
				elements = { fd00::/8 }
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
	first := map[string]string{}
	for _, c := range table(State{}).Chains {
		first[c.Name] = c.Rules[0]
	}
	expect(t, first["prerouting"], fmt.Sprintf(`iifname "%s*" goto ports`, cni.InterfacePrefix))
	expect(t, first["ports"], fmt.Sprintf(`iifname != %q counter drop comment "stranger"`, GatewayName))
}
