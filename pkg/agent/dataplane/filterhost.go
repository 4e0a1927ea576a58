package dataplane

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/pod2/pod2/pkg/network/multus"
)

// both are a rule for IPv4 and for IPv6, whose words are %[1]s, and %[2]s at the end of a
// set's name.
func both(rule string) []string {
	return []string{fmt.Sprintf(rule, "ip", "4"), fmt.Sprintf(rule, "ip6", "6")}
}

// hostTable keeps packets of Networks from the nodes' own ports and the API server, and
// connections from outside from Networks. They come from the routers, by wn<vni>.
func hostTable(s State, transit6 netip.Prefix) Table {
	denied, ahead := denials(s.Denied)
	vxlan := vxlanRules(s)
	return Table{Family: "inet", Name: TableName,
		Sets: hostSets(s),
		Chains: []Chain{
			{"forward", hostForward, slices.Concat([]string{
				// Where bridged packets pass here, by br_netfilter, they are none of ours.
				`iifname "nw*" oifname "nw*" accept`,
				`iifname "nw*" counter drop comment "bridge"`,
				`iifname "wn*" oifname "wn*" counter drop comment "network"`},
				both(`iifname "wn*" %[1]s daddr @nodes%[2]s counter drop comment "node"`),
				both(`iifname "wn*" meta l4proto tcp %[1]s daddr . th dport @api%[2]s counter drop comment "api"`),
				denied, []string{
					`iifname "wn*" accept`,
					`oifname "wn*" ct state established,related accept`,
					`oifname "wn*" counter drop comment "inbound"`},
				vxlan.forward)},
			{"input", hostInput, slices.Concat([]string{
				`iifname "nw*" counter drop comment "bridge"`,
				`iifname "wn*" icmpv6 type nd-neighbor-solicit accept`,
				`iifname "wn*" icmpv6 type nd-neighbor-advert accept`,
				`iifname "wn*" counter drop comment "node"`},
				vxlan.input)},
			{"output", rawOutput, vxlan.untracked},
			{"postrouting", natPostrouting, []string{
				fmt.Sprintf(`ip saddr %s oifname != "wn*" masquerade`, s.Transit),
				fmt.Sprintf(`ip6 saddr %s oifname != "wn*" masquerade`, transit6),
			}},
			{"prerouting", rawPrerouting, slices.Concat([]string{
				// One zone of conntrack for all bridges would take equal connections of two
				// Networks for one.
				`iifname "nw*" notrack accept`},
				ahead, vxlan.forged, vxlan.untracked)},
		}}
}

// hostSets are what the rules of hostTable go by.
//
//	api4, api6      addresses and ports of the API server
//	nodes4, nodes6  addresses of nodes
//	vnis            numbers of Networks, of all of the cluster
func hostSets(s State) []Set {
	var nodes4, nodes6, api4, api6, vnis []string
	for _, n := range s.Nodes {
		for _, a := range n.Addresses {
			if a.Is4() {
				nodes4 = append(nodes4, element(a))
			} else {
				nodes6 = append(nodes6, element(a))
			}
		}
	}
	for _, a := range s.APIServers {
		if a.Addr().Is4() {
			api4 = append(api4, element(a.Addr(), a.Port()))
		} else {
			api6 = append(api6, element(a.Addr(), a.Port()))
		}
	}
	for _, n := range s.Networks {
		vnis = append(vnis, element(n.VNI))
	}
	return []Set{
		newSet("api4", "ipv4_addr . inet_service", api4),
		newSet("api6", "ipv6_addr . inet_service", api6),
		newSet("nodes4", "ipv4_addr", nodes4),
		newSet("nodes6", "ipv6_addr", nodes6),
		newSet("vnis", "integer", vnis),
	}
}

// vxlanFilter is who may send VXLAN. It has no authentication: whoever sends to its port is
// in any Network that he names. So only nodes may name those of ours, from an address of
// one to an address of one, and others use the port with numbers of their own:
//
//	a pod of the cluster's own network   is stopped where it is, in forward, before
//	                                     masquerading gives it the address of its node
//	to the node that it is on            in input, as whoever else is no node
//	with the address of a node, forged   in prerouting: the way back does not lead to its port
//	by a Service that leads to the port  in input, where it may have the address of its node:
//	                                     what was translated is tracked
//
// This node may not have heard yet of the Network that what it forwards is for: it is
// stopped by any number that the controller gives, too.
type vxlanFilter struct {
	forward, input, forged []string
	// untracked is what nodes send: each connection between pods has a port of its own there,
	// so that conntrack would follow all of them on both nodes, and be full one day.
	untracked []string
}

func vxlanRules(s State) vxlanFilter {
	port := fmt.Sprintf("meta l4proto udp th dport %d", s.UDPPort)
	ours := port + " @th,96,24 @vnis" // the number in VXLAN's header (RFC 7348)
	f := vxlanFilter{
		forward: slices.Concat(
			both(`%[1]s daddr @nodes%[2]s `+ours+` counter drop comment "vxlan"`),
			both(fmt.Sprintf(`%%[1]s daddr @nodes%%[2]s %s @th,96,24 >= %d counter drop comment "vxlan"`, port, multus.FirstVNI))),
		input:     append(both(`ct state untracked %[1]s saddr @nodes%[2]s %[1]s daddr @nodes%[2]s `+port+` accept`), ours+` counter drop comment "vxlan"`),
		untracked: both(`%[1]s daddr @nodes%[2]s ` + ours + ` notrack`),
	}
	if s.VXLANReversePathFilter {
		f.forged = both(`%[1]s saddr @nodes%[2]s ` + ours + ` fib saddr . iif oif missing counter drop comment "vxlan"`)
	}
	return f
}

// denials are rules for packets of Networks that are on their way, and for those whose way
// is not decided yet: a Service translates one address into another between the two, and
// either may be denied. What routers and the node ask each other passes: that is how they
// find each other, whatever is denied.
func denials(cidrs []netip.Prefix) (forward, prerouting []string) {
	cidrs = slices.Clone(cidrs)
	slices.SortFunc(cidrs, netip.Prefix.Compare)
	for _, p := range slices.Compact(cidrs) {
		family := "ip"
		if p.Addr().Is6() {
			family = "ip6"
		}
		forward = append(forward, fmt.Sprintf(`iifname "wn*" %s daddr %s counter drop comment "denied"`, family, p))
	}
	if len(forward) == 0 {
		return nil, nil
	}
	return forward, append([]string{
		`iifname "wn*" icmpv6 type nd-neighbor-solicit accept`,
		`iifname "wn*" icmpv6 type nd-neighbor-advert accept`,
	}, forward...)
}
