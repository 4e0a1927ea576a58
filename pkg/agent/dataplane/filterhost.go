package dataplane

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/pod2/pod2/pkg/network/multus"
)

// both expands a rule for IPv4 and for IPv6. %[1]s in it is the family, %[2]s the end of a
// set's name.
func both(rule string) []string {
	return []string{fmt.Sprintf(rule, "ip", "4"), fmt.Sprintf(rule, "ip6", "6")}
}

// hostTable keeps packets of Networks away from the node's own ports and from the API
// server. It also keeps outside connections out of Networks. Packets of Networks arrive
// from the routers, through wn<vni>.
//
// The programs on the ports of pods and routers take all packets. A packet that arrives at the
// node's own stack through such a port came past a program, so it is dropped.
func hostTable(s State) Table {
	denied, ahead := denials(s.Denied)
	vxlan := vxlanRules(s)
	var bridged []string
	if len(s.Host.oldBridges()) > 0 {
		// br_netfilter makes bridged packets pass here too. Bridges share one conntrack zone,
		// which would mistake equal connections of two Networks for one connection.
		bridged = []string{`iifname "nw*" notrack accept`}
	}
	return Table{Family: "inet", Name: TableName,
		Sets: hostSets(s),
		Chains: []Chain{
			{"forward", hostForward, slices.Concat([]string{
				`iifname "wn*" oifname "wn*" counter drop comment "network"`},
				both(`iifname "wn*" %[1]s daddr @nodes%[2]s counter drop comment "node"`),
				both(`iifname "wn*" meta l4proto tcp %[1]s daddr . th dport @api%[2]s counter drop comment "api"`),
				denied, []string{
					`iifname "wn*" accept`,
					`oifname "wn*" ct state established,related accept`,
					`oifname "wn*" counter drop comment "inbound"`},
				vxlan.forward)},
			{"input", hostInput, slices.Concat([]string{
				`iifname "wn*" icmpv6 type nd-neighbor-solicit accept`,
				`iifname "wn*" icmpv6 type nd-neighbor-advert accept`,
				`iifname "wn*" counter drop comment "node"`},
				vxlan.input)},
			{"output", rawOutput, vxlan.untracked},
			{"postrouting", natPostrouting, []string{
				fmt.Sprintf(`ip saddr %s oifname != "wn*" masquerade`, s.Transit),
				fmt.Sprintf(`ip6 saddr %s oifname != "wn*" masquerade`, Transit6),
			}},
			{"prerouting", rawPrerouting, slices.Concat([]string{
				`iifname "pod2*" counter drop comment "stranger"`,
				`iifname "rt*" counter drop comment "stranger"`},
				bridged, ahead, vxlan.forged, vxlan.untracked)},
		}}
}

// hostSets are the sets that the rules of hostTable match.
//
//	api4, api6      addresses and ports of the API server
//	nodes4, nodes6  addresses of nodes
func hostSets(s State) []Set {
	var nodes4, nodes6, api4, api6 []string
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
	return []Set{
		newSet("api4", "ipv4_addr . inet_service", api4),
		newSet("api6", "ipv6_addr . inet_service", api6),
		newSet("nodes4", "ipv4_addr", nodes4),
		newSet("nodes6", "ipv6_addr", nodes6),
	}
}

// vxlanFilter decides which hosts may send VXLAN. VXLAN has no authentication: a sender
// reaches any Network whose VNI it writes into the packet. So only nodes may send with the
// VNI of a Network, and only between addresses of nodes. Other programs may use the port
// with other VNIs. These senders are stopped:
//
//	a pod of the cluster's own network   on its node in forward, before masquerading gives
//	                                     the packet the address of the node
//	the same pod, to its own node        in input, like any sender that is not a node
//	a forged address of a node           in prerouting: the route back does not lead to
//	                                     the interface that the packet came from
//	a Service that leads to the port     in input; the packet may have the address of its
//	                                     node, but translated packets are tracked
type vxlanFilter struct {
	forward, input, forged []string
	// untracked are the packets of nodes. Each connection between pods has its own source port
	// here. conntrack would follow all of them on both nodes, and its table would fill up.
	untracked []string
}

func vxlanRules(s State) vxlanFilter {
	port := fmt.Sprintf("meta l4proto udp th dport %d", s.UDPPort)
	ours := port + fmt.Sprintf(" @th,96,24 >= %d", multus.FirstVNI) // the number in VXLAN's header (RFC 7348)
	f := vxlanFilter{
		forward:   both(`%[1]s daddr @nodes%[2]s ` + ours + ` counter drop comment "vxlan"`),
		input:     append(both(`ct state untracked %[1]s saddr @nodes%[2]s %[1]s daddr @nodes%[2]s `+port+` accept`), ours+` counter drop comment "vxlan"`),
		untracked: both(`%[1]s daddr @nodes%[2]s ` + ours + ` notrack`),
	}
	if s.VXLANReversePathFilter {
		f.forged = both(`%[1]s saddr @nodes%[2]s ` + ours + ` fib saddr . iif oif missing counter drop comment "vxlan"`)
	}
	return f
}

// denials are rules for packets of Networks: one list for packets that are being forwarded,
// one for packets before routing. A Service translates the address between the two, and
// either address may be denied. Neighbour discovery between routers and the node always
// passes, because they need it to find each other.
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
