package dataplane

import (
	"net/netip"
	"slices"
	"testing"
)

// harm is a manual change, and the steps that undo it.
type harm struct {
	name   string
	change func(host, router *Namespace)
	want   string
}

// repaired checks that each change is undone. The node has the Network 1001.
func repaired(t *testing.T, lines []string, harms []harm) {
	t.Helper()
	for _, tt := range harms {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, lines...)
			settle(t, &s)
			s.Host = clone(s.Host)
			tt.change(s.Host.Namespace(""), s.Host.Namespace("pod2-1001"))
			p, _ := decide(t, s)
			expect(t, p.String(), tt.want)
			settle(t, &s)
		})
	}
}

// Each manual change is undone, and nothing else is touched.
func TestRepair(t *testing.T) {
	repaired(t, blue, []harm{
		{"nothing", func(*Namespace, *Namespace) {}, ""},
		{"the router's port down, with another MTU, an address of its own, and on a bridge", func(host, _ *Namespace) {
			l := host.Link("rt1001")
			l.Up, l.MTU, l.AutoAddress, l.Master = false, 1280, true, "br0"
		}, `
		ip link set rt1001 nomaster mtu 1450 addrgenmode none up`},
		{"the gateway's MAC address", func(_, router *Namespace) { router.Link("lan").MAC = MAC{2} }, `
		ip -n pod2-1001 link set lan address 02:00:5e:00:03:e9`},
		{"a link of another kind in the place of the router's port, and lan's other end elsewhere", func(host, router *Namespace) {
			host.Link("rt1001").Kind, host.Link("rt1001").Peer, router.Link("lan").Peer = "dummy", "", ""
		}, `
		ip link del rt1001
		ip -n pod2-1001 link del lan
		ip link add rt1001 mtu 1450 type veth peer name lan mtu 1450 address 02:00:5e:00:03:e9 netns pod2-1001
		ip link set rt1001 addrgenmode none up
		ip -n pod2-1001 link set lan addrgenmode none up
		ip -n pod2-1001 addr add 192.168.0.1/16 dev lan`},
		{"an address on the router's port", func(host, _ *Namespace) {
			host.addAddress(Address{Dev: "rt1001", Prefix: netip.MustParsePrefix("192.168.0.9/16")})
		}, `
		ip addr del 192.168.0.9/16 dev rt1001`},
		{"the router's addresses and route flushed", func(_, router *Namespace) { router.Addresses, router.Routes = nil, nil }, `
		ip -n pod2-1001 addr add 192.168.0.1/16 dev lan
		ip -n pod2-1001 addr add 100.64.0.1/31 dev wan
		ip -n pod2-1001 route add default via 100.64.0.0 dev wan`},
		{"nothing is routed", func(host, router *Namespace) {
			host.Sysctls[0].Value, router.Sysctls[0].Value = "0", "0"
		}, `
		sysctl -w net.ipv4.ip_forward=1
		ip netns exec pod2-1001 sysctl -w net.ipv4.ip_forward=1`},
		{"nft flush ruleset", func(host, router *Namespace) { host.Tables, router.Tables = nil, nil }, `
		nft replace table inet pod2: 5 chains, 26 rules, 4 sets, 2 elements
		ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 7 rules, 0 sets, 0 elements`},
		{"a rule gone", func(host, _ *Namespace) {
			host.Tables[0].Chains = slices.Clone(host.Tables[0].Chains)
			host.Tables[0].Chains[0].Rules = host.Tables[0].Chains[0].Rules[1:]
		}, `
		nft replace table inet pod2: 5 chains, 26 rules, 4 sets, 2 elements`},
		{"elements changed", func(host, _ *Namespace) { host.Tables[0].Sets[2].Elements = []string{"10.0.0.1", "10.0.0.9"} }, `
		nft delete element inet pod2 nodes4 { 10.0.0.9 }; add element inet pod2 nodes4 { 10.0.0.2 }`},
		{"an unknown table with the agent's name", func(host, _ *Namespace) {
			host.Tables = append(host.Tables, Table{Family: "ip", Name: "pod2"})
		}, `
		nft delete table ip pod2`},
	})
}
