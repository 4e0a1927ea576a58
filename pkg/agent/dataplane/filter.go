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

// table keeps packets of Networks away from the node's own ports and from the API server. It also keeps outside
// connections out of Networks. Packets of Networks arrive by pod2gw, with their transit address. Nothing leaves
// without NAT: conntrack does not translate invalid packets, so forward drops them.
//
// The programs on the ports of pods take all packets. A packet that arrives at the node's own stack through such a
// port came past a program, so it is dropped. So are packets that only a program must see: those of pod2gwp.
func table(s State) Table {
	vxlan := vxlanRules(s)
	// Before routing, and while packets are being forwarded: a Service translates the address between the two, and
	// either one may be denied.
	denied := both(`%[1]s daddr @denied%[2]s counter drop comment "denied"`)
	translated := func(family string, transit netip.Prefix) string {
		return fmt.Sprintf(`%s saddr %s ct state new,established,related accept`, family, transit)
	}
	// Only packets by pod2gw may have a transit address as source. With a forged one, masquerade would translate the
	// packet, and conntrack would take the answers for those to the pod with this address.
	forged := []string{
		fmt.Sprintf(`ip saddr %s counter drop comment "inbound"`, s.Transit),
		fmt.Sprintf(`ip6 saddr %s counter drop comment "inbound"`, Transit6)}
	return Table{
		Sets: sets(s),
		Chains: []Chain{
			{"forward", "filter", 0, slices.Concat([]string{in + ` goto outbound`}, forged, []string{out + ` goto inbound`}, vxlan.forward)},
			{Name: "outbound", Rules: slices.Concat([]string{
				out + ` counter drop comment "network"`},
				both(`%[1]s daddr @nodes%[2]s counter drop comment "node"`),
				both(`meta l4proto tcp %[1]s daddr . th dport @api%[2]s counter drop comment "api"`),
				denied, []string{
					clamp,
					translated("ip", s.Transit),
					translated("ip6", Transit6),
					`counter drop comment "invalid"`})},
			{Name: "inbound", Rules: []string{
				clamp,
				`ct state established,related accept`,
				`counter drop comment "inbound"`}},
			{"input", "filter", 0, slices.Concat([]string{in + ` counter drop comment "node"`}, vxlan.input)},
			{"output", "filter", -300, slices.Concat([]string{
				out + ` ip6 daddr ff00::/8 drop`, // the kernel tells by itself which groups it listens to
				out + ` counter drop comment "inbound"`}, forged, both(vxlan.match+` `+vxlan.untracked))},
			{"postrouting", "nat", 100, []string{
				fmt.Sprintf(`ip saddr %s oifname != "%s" masquerade`, s.Transit, GatewayName),
				fmt.Sprintf(`ip6 saddr %s oifname != "%s" masquerade`, Transit6, GatewayName),
			}},
			{"prerouting", "filter", -300, []string{`iifname "pod2*" goto ports`, vxlan.match + ` goto vxlan`}},
			{Name: "ports", Rules: append([]string{`iifname != "` + GatewayName + `" counter drop comment "stranger"`}, denied...)},
			{Name: "vxlan", Rules: slices.Concat(vxlan.forged, both(vxlan.untracked))},
		}}
}

// Meanings of the comments of rules: each says which packets the rule drops.
var Meanings = map[string]string{
	"node":     "from a Network to a node",
	"api":      "from a Network to the API server",
	"denied":   "from a Network to an address in --deny-cidrs",
	"network":  "from a Network to another one",
	"invalid":  "from a Network, but conntrack cannot follow it",
	"inbound":  "to a Network, from the node or the outside",
	"stranger": "from a port without its program",
	"vxlan":    "VXLAN that is not from a node",
}

// in matches packets that leave a Network, out those that enter one.
const in, out = `iifname "` + GatewayName + `"`, `oifname "` + GatewayName + `"`

// clamp lowers the maximum segment size of a TCP connection to the smaller MTU of its two ways. The node's own ICMP errors
// do not reach pods, so a pod cannot learn that the node leads to the outside by a smaller MTU than that of the Network.
const clamp = `meta l4proto tcp tcp flags syn tcp option maxseg size set rt mtu`

// sets that the rules of table match.
//
//	api4, api6        addresses and ports of the API server
//	denied4, denied6  addresses in --deny-cidrs
//	nodes4, nodes6    addresses of nodes
func sets(s State) []Set {
	var nodes []netip.AddrPort
	for _, a := range slices.Concat(s.Self, s.Nodes) {
		nodes = append(nodes, netip.AddrPortFrom(a, 0))
	}
	return []Set{
		newSet("api4", "ipv4_addr . inet_service", s.APIServers),
		newSet("api6", "ipv6_addr . inet_service", s.APIServers),
		newIntervals("denied4", "ipv4_addr", s.Denied),
		newIntervals("denied6", "ipv6_addr", s.Denied),
		newSet("nodes4", "ipv4_addr", nodes),
		newSet("nodes6", "ipv6_addr", nodes),
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
	// match is the condition of a rule for VXLAN with the VNI of a Network.
	match string
	// untracked are the packets of nodes. Each connection between pods has its own source port
	// here. conntrack would follow all of them on both nodes, and its table would fill up.
	untracked string
}

func vxlanRules(s State) vxlanFilter {
	port := fmt.Sprintf("meta l4proto udp th dport %d", s.UDPPort)
	match := port + fmt.Sprintf(" @th,96,24 >= %d", multus.FirstVNI) // the number in VXLAN's header (RFC 7348)
	f := vxlanFilter{
		forward:   both(match + ` %[1]s daddr @nodes%[2]s counter drop comment "vxlan"`),
		input:     append(both(port+` ct state untracked %[1]s saddr @nodes%[2]s %[1]s daddr @nodes%[2]s accept`), match+` counter drop comment "vxlan"`),
		match:     match,
		untracked: `%[1]s daddr @nodes%[2]s notrack`,
	}
	if s.VXLANReversePathFilter {
		f.forged = both(`%[1]s saddr @nodes%[2]s fib saddr . iif oif missing counter drop comment "vxlan"`)
	}
	return f
}
