package dataplane

import (
	"net/netip"
	"testing"
)

func TestBridgeTable(t *testing.T) {
	table := bridgeTable([]binding{
		{"veth2", MAC{0x0a, 0x58, 0, 0, 0, 2}, netip.MustParseAddr("fd00::2")},
		{"veth1", MAC{0x0a, 0x58, 0xc0, 0xa8, 0, 2}, netip.MustParseAddr("192.168.0.2")},
	}, []string{"vx1001", "rt1001"}, []string{"veth3"})
	table.Chains = table.Chains[3:]
	expect(t, table.String(), `
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
			chain prerouting {
				type filter hook prerouting priority -300; policy accept;
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
	s := state(t, "node n1 10.0.0.1 fd0a::1", "node n2 10.0.0.2", "api 10.0.0.1:6443", "api [fd0a::1]:6443")
	table := hostTable(s, Transit6)
	table.Chains = table.Chains[2:]
	expect(t, table.String(), `
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
			chain output {
				type filter hook output priority -300; policy accept;
				meta l4proto udp th dport 4789 notrack
			}
			chain postrouting {
				type nat hook postrouting priority 100; policy accept;
				ip saddr 100.64.0.0/16 oifname != "wn*" masquerade
				ip6 saddr fd64:706f:6432::/96 oifname != "wn*" masquerade
			}
			chain prerouting {
				type filter hook prerouting priority -300; policy accept;
				iifname "nw*" notrack
				meta l4proto udp th dport 4789 notrack
			}
		}`)
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
