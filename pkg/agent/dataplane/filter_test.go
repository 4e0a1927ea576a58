package dataplane

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestBridgeTable(t *testing.T) {
	expect(t, bridgeTable([]binding{
		{"veth2", MAC{0x0a, 0x58, 0, 0, 0, 2}, netip.MustParseAddr("fd00::2")},
		{"veth1", MAC{0x0a, 0x58, 0xc0, 0xa8, 0, 2}, netip.MustParseAddr("192.168.0.2")},
	}, []string{"vx1001", "rt1001"}, []string{"veth3"}).String(), `
		table bridge pod2 {
			set dropped {
				type ifname
				counter
				elements = { "veth1",
					     "veth2" }
			}
			set ip4 {
				type ifname . ether_addr . ipv4_addr
				elements = { "veth1" . 0a:58:c0:a8:00:02 . 192.168.0.2 }
			}
			set ip6 {
				type ifname . ether_addr . ipv6_addr
				elements = { "veth1" . 0a:58:c0:a8:00:02 . fe80::858:c0ff:fea8:2,
					     "veth2" . 0a:58:00:00:00:02 . fd00::2,
					     "veth2" . 0a:58:00:00:00:02 . fe80::858:ff:fe00:2 }
			}
			set mac {
				type ifname . ether_addr
				elements = { "veth1" . 0a:58:c0:a8:00:02,
					     "veth2" . 0a:58:00:00:00:02 }
			}
			set ports {
				type ifname
				elements = { "veth1",
					     "veth2" }
			}
			set strangers {
				type ifname
				elements = { "veth3" }
			}
			set trunks {
				type ifname
				elements = { "rt1001",
					     "vx1001" }
			}
			chain forward {
				type filter hook forward priority -300; policy accept;
				iifname @ports oifname @ports accept
				iifname @ports oifname @trunks accept
				iifname @trunks oifname @ports accept
				iifname @ports counter drop comment "stranger"
				iifname @trunks counter drop comment "stranger"
				oifname @ports counter drop comment "stranger"
				oifname @strangers counter drop comment "stranger"
				oifname @trunks counter drop comment "stranger"
			}
			chain input {
				type filter hook input priority -300; policy accept;
				iifname @ports drop
				iifname @trunks drop
			}
			chain pod {
				iifname . ether saddr != @mac counter jump spoofed comment "mac"
				ether type ip counter jump spoofed comment "ip"
				ether type arp iifname . arp saddr ether . arp saddr ip @ip4 accept
				ether type arp iifname . arp saddr ether @mac arp saddr ip 0.0.0.0 accept
				ether type arp counter jump spoofed comment "arp"
				ether type ip6 icmpv6 type nd-router-advert counter jump spoofed comment "nd"
				ether type ip6 icmpv6 type nd-redirect counter jump spoofed comment "nd"
				ether type ip6 icmpv6 type nd-neighbor-advert iifname . ether saddr . icmpv6 taddr != @ip6 counter jump spoofed comment "nd"
				ether type ip6 iifname . ether saddr . ip6 saddr @ip6 accept
				ether type ip6 icmpv6 type nd-neighbor-solicit ip6 saddr :: accept
				ether type ip6 icmpv6 type mld2-listener-report drop
				ether type ip6 counter jump spoofed comment "ip"
				counter jump spoofed comment "protocol"
			}
			chain prerouting {
				type filter hook prerouting priority -300; policy accept;
				iifname @trunks accept
				ether type ip iifname . ether saddr . ip saddr @ip4 accept
				ether type ip6 meta l4proto != ipv6-icmp iifname . ether saddr . ip6 saddr @ip6 accept
				iifname @ports jump pod
				iifname @strangers counter drop comment "stranger"
			}
			chain spoofed {
				iifname @dropped drop
				drop
			}
		}`)
}

func TestHostTable(t *testing.T) {
	s := state(t, "node n1 10.0.0.1 fd0a::1", "node n2 10.0.0.2", "api 10.0.0.1:6443", "api [fd0a::1]:6443", "network blue 1001 192.168.0.0/16", "network green 65536 fd00::/64")
	expect(t, hostTable(s, Transit6).String(), `
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
			set vnis {
				type integer
				elements = { 1001,
					     65536 }
			}
			chain forward {
				type filter hook forward priority 0; policy accept;
				iifname "nw*" oifname "nw*" accept
				iifname "nw*" counter drop comment "bridge"
				iifname "wn*" oifname "wn*" counter drop comment "network"
				iifname "wn*" ip daddr @nodes4 counter drop comment "node"
				iifname "wn*" ip6 daddr @nodes6 counter drop comment "node"
				iifname "wn*" meta l4proto tcp ip daddr . th dport @api4 counter drop comment "api"
				iifname "wn*" meta l4proto tcp ip6 daddr . th dport @api6 counter drop comment "api"
				iifname "wn*" accept
				oifname "wn*" ct state established,related accept
				oifname "wn*" counter drop comment "inbound"
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 @vnis counter drop comment "vxlan"
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 @vnis counter drop comment "vxlan"
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 >= 65536 counter drop comment "vxlan"
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 >= 65536 counter drop comment "vxlan"
			}
			chain input {
				type filter hook input priority 0; policy accept;
				iifname "nw*" counter drop comment "bridge"
				iifname "wn*" icmpv6 type nd-neighbor-solicit accept
				iifname "wn*" icmpv6 type nd-neighbor-advert accept
				iifname "wn*" counter drop comment "node"
				ct state untracked ip saddr @nodes4 ip daddr @nodes4 meta l4proto udp th dport 4789 accept
				ct state untracked ip6 saddr @nodes6 ip6 daddr @nodes6 meta l4proto udp th dport 4789 accept
				meta l4proto udp th dport 4789 @th,96,24 @vnis counter drop comment "vxlan"
			}
			chain output {
				type filter hook output priority -300; policy accept;
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 @vnis notrack
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 @vnis notrack
			}
			chain postrouting {
				type nat hook postrouting priority 100; policy accept;
				ip saddr 100.64.0.0/16 oifname != "wn*" masquerade
				ip6 saddr fd64:706f:6432::/96 oifname != "wn*" masquerade
			}
			chain prerouting {
				type filter hook prerouting priority -300; policy accept;
				iifname "nw*" notrack accept
				ip saddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 @vnis fib saddr . iif oif missing counter drop comment "vxlan"
				ip6 saddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 @vnis fib saddr . iif oif missing counter drop comment "vxlan"
				ip daddr @nodes4 meta l4proto udp th dport 4789 @th,96,24 @vnis notrack
				ip6 daddr @nodes6 meta l4proto udp th dport 4789 @th,96,24 @vnis notrack
			}
		}`)
}

// Packets to a denied address are dropped before and after translation, and before any rule
// that lets packets of Networks out.
func TestDenied(t *testing.T) {
	table := hostTable(State{UDPPort: 4789, Transit: netip.MustParsePrefix("100.64.0.0/16"), Denied: []netip.Prefix{
		netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.96.0.0/12")}}, Transit6)
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
	if got := hostTable(State{UDPPort: 4789, Transit: netip.MustParsePrefix("100.64.0.0/16")}, Transit6).String(); strings.Contains(got, "fib") {
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
