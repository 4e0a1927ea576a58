package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// The hooks of our chains. What bridges see first, before they learn anything, is what
// a port may send.
const (
	bridgePrerouting = "type filter hook prerouting priority -300; policy accept;"
	bridgeForward    = "type filter hook forward priority -300; policy accept;"
	bridgeInput      = "type filter hook input priority -300; policy accept;"
	rawPrerouting    = "type filter hook prerouting priority -300; policy accept;"
	hostInput        = "type filter hook input priority 0; policy accept;"
	hostForward      = "type filter hook forward priority 0; policy accept;"
	rawOutput        = "type filter hook output priority -300; policy accept;"
	routerInput      = "type filter hook input priority 0; policy drop;"
	routerForward    = "type filter hook forward priority 0; policy drop;"
	natPostrouting   = "type nat hook postrouting priority 100; policy accept;"
)

// element of a set, of its parts.
func element(parts ...any) string {
	text := ""
	for i, part := range parts {
		if i > 0 {
			text += " . "
		}
		if name, ok := part.(string); ok {
			text += strconv.Quote(name)
		} else {
			text += fmt.Sprint(part)
		}
	}
	return text
}

func newSet(name, kind string, elements []string) Set {
	slices.Sort(elements)
	return Set{Name: name, Type: kind, Elements: slices.Compact(elements)}
}

func counting(s Set) Set {
	s.Counter = true
	return s
}

// binding is a port and what may be sent from it.
type binding struct {
	port string
	mac  MAC
	ip   netip.Addr
}

// bridgeTable lets the pod behind a port send as itself only, and closes ports that are
// not known. Frames pass between two known ones, or two of which neither is in a set, as
// on the bridges of others: a rule cannot ask which bridge it is (meta ibrname) where the
// kernel was built without that.
//
//	ports      of pods
//	trunks     vx<vni> and rt<vni>
//	strangers  are on our bridges, and whose they are is not known
//	dropped    the ports of pods, each with a counter of what it sent that was not its own
//
// What nearly all frames are comes first: it is looks into sets that cost.
//
// A trunk reaches pods only: a pod uses the gateway of its own node. Nothing reaches the
// node through the bridge itself, which would route for those who know its MAC address.
func bridgeTable(bindings []binding, trunks, strangers []string) Table {
	var ports, macs, ip4, ip6, ends, closed []string
	for _, b := range bindings {
		ports = append(ports, element(b.port))
		macs = append(macs, element(b.port, b.mac))
		ip6 = append(ip6, element(b.port, b.mac, b.mac.linkLocal()))
		if e := element(b.port, b.mac, b.ip); b.ip.Is4() {
			ip4 = append(ip4, e)
		} else {
			ip6 = append(ip6, e)
		}
	}
	for _, name := range trunks {
		ends = append(ends, element(name))
	}
	for _, name := range strangers {
		closed = append(closed, element(name))
	}
	return Table{Family: "bridge", Name: TableName,
		Sets: []Set{
			counting(newSet(DroppedSet, "ifname", slices.Clone(ports))),
			newSet("ip4", "ifname . ether_addr . ipv4_addr", ip4),
			newSet("ip6", "ifname . ether_addr . ipv6_addr", ip6),
			newSet("mac", "ifname . ether_addr", macs),
			newSet("ports", "ifname", ports),
			newSet("strangers", "ifname", closed),
			newSet("trunks", "ifname", ends),
		},
		Chains: []Chain{
			{"forward", bridgeForward, []string{
				`iifname @ports oifname @ports accept`,
				`iifname @ports oifname @trunks accept`,
				`iifname @trunks oifname @ports accept`,
				`iifname @ports counter drop comment "stranger"`,
				`iifname @trunks counter drop comment "stranger"`,
				`oifname @ports counter drop comment "stranger"`,
				`oifname @strangers counter drop comment "stranger"`,
				`oifname @trunks counter drop comment "stranger"`,
			}},
			{"input", bridgeInput, []string{
				`iifname @ports drop`,
				`iifname @trunks drop`,
			}},
			{"pod", "", []string{
				`iifname . ether saddr != @mac counter jump spoofed comment "mac"`,
				`ether type ip counter jump spoofed comment "ip"`,
				`ether type arp iifname . arp saddr ether . arp saddr ip @ip4 accept`,
				// A probe (RFC 5227) claims nothing.
				`ether type arp iifname . arp saddr ether @mac arp saddr ip 0.0.0.0 accept`,
				`ether type arp counter jump spoofed comment "arp"`,
				// No pod is a router, or answers for the address of another.
				`ether type ip6 icmpv6 type nd-router-advert counter jump spoofed comment "nd"`,
				`ether type ip6 icmpv6 type nd-redirect counter jump spoofed comment "nd"`,
				`ether type ip6 icmpv6 type nd-neighbor-advert iifname . ether saddr . icmpv6 taddr != @ip6 counter jump spoofed comment "nd"`,
				`ether type ip6 iifname . ether saddr . ip6 saddr @ip6 accept`,
				// Duplicate address detection, and reports of who has no address yet.
				`ether type ip6 icmpv6 type nd-neighbor-solicit ip6 saddr :: accept`,
				`ether type ip6 icmpv6 type mld2-listener-report drop`,
				`ether type ip6 counter jump spoofed comment "ip"`,
				// VLAN tags too: what is inside would not be looked at.
				`counter jump spoofed comment "protocol"`,
			}},
			{"prerouting", bridgePrerouting, []string{
				`iifname @trunks accept`,
				`ether type ip iifname . ether saddr . ip saddr @ip4 accept`,
				// Not ICMPv6, in which there is more to look at.
				`ether type ip6 meta l4proto != ipv6-icmp iifname . ether saddr . ip6 saddr @ip6 accept`,
				`iifname @ports jump pod`,
				`iifname @strangers counter drop comment "stranger"`,
			}},
			{"spoofed", "", []string{
				`iifname @dropped drop`, // which counts
				`drop`,
			}},
		}}
}

// hostTable keeps packets of Networks from the nodes' own ports and the API server, and
// connections from outside from Networks. They come from the routers, by wn<vni>.
//
// VXLAN has no authentication: whoever sends to its port is in any Network that he names.
// So only nodes may, from an address of one to an address of one. A pod of the cluster's
// own network is stopped where it is, in forward, before masquerading gives it the address
// of its node, and in input if it is on the node that it sends to. If it forges the address
// of a node it is stopped in prerouting: the way back does not lead to its port.
func hostTable(s State, transit6 netip.Prefix) Table {
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
	vxlan := fmt.Sprintf("meta l4proto udp th dport %d", s.UDPPort)
	// Each connection between pods has a port of its own there: conntrack would follow all
	// of them on both nodes, and be full one day. What is for others keeps its NAT.
	untracked := []string{`ip daddr @nodes4 ` + vxlan + ` notrack`, `ip6 daddr @nodes6 ` + vxlan + ` notrack`}
	var forged []string
	if s.ReversePathFilter {
		forged = []string{`ip saddr @nodes4 ` + vxlan + ` fib saddr . iif oif missing counter drop comment "vxlan"`,
			`ip6 saddr @nodes6 ` + vxlan + ` fib saddr . iif oif missing counter drop comment "vxlan"`}
	}
	denied, ahead := denials(s.Denied)
	return Table{Family: "inet", Name: TableName,
		Sets: []Set{
			newSet("api4", "ipv4_addr . inet_service", api4),
			newSet("api6", "ipv6_addr . inet_service", api6),
			newSet("nodes4", "ipv4_addr", nodes4),
			newSet("nodes6", "ipv6_addr", nodes6),
		},
		Chains: []Chain{
			{"forward", hostForward, slices.Concat([]string{
				// Where bridged packets pass here, by br_netfilter, they are none of ours.
				`iifname "nw*" oifname "nw*" accept`,
				`iifname "nw*" counter drop comment "bridge"`,
				`iifname "wn*" oifname "wn*" counter drop comment "network"`,
				`iifname "wn*" ip daddr @nodes4 counter drop comment "node"`,
				`iifname "wn*" ip6 daddr @nodes6 counter drop comment "node"`,
				`iifname "wn*" meta l4proto tcp ip daddr . th dport @api4 counter drop comment "api"`,
				`iifname "wn*" meta l4proto tcp ip6 daddr . th dport @api6 counter drop comment "api"`,
			}, denied, []string{
				`iifname "wn*" accept`,
				`oifname "wn*" ct state established,related accept`,
				`oifname "wn*" counter drop comment "inbound"`,
				// What a node forwards is sent by no node, though the next rule of somebody may
				// give it this node's address.
				`ip daddr @nodes4 ` + vxlan + ` counter drop comment "vxlan"`,
				`ip6 daddr @nodes6 ` + vxlan + ` counter drop comment "vxlan"`,
			})},
			{"input", hostInput, []string{
				`iifname "nw*" counter drop comment "bridge"`,
				`iifname "wn*" icmpv6 type nd-neighbor-solicit accept`,
				`iifname "wn*" icmpv6 type nd-neighbor-advert accept`,
				`iifname "wn*" counter drop comment "node"`,
				`ip saddr @nodes4 ip daddr @nodes4 ` + vxlan + ` accept`,
				`ip6 saddr @nodes6 ip6 daddr @nodes6 ` + vxlan + ` accept`,
				vxlan + ` counter drop comment "vxlan"`,
			}},
			{"output", rawOutput, untracked},
			{"postrouting", natPostrouting, []string{
				fmt.Sprintf(`ip saddr %s oifname != "wn*" masquerade`, s.Transit),
				fmt.Sprintf(`ip6 saddr %s oifname != "wn*" masquerade`, transit6),
			}},
			{"prerouting", rawPrerouting, slices.Concat([]string{
				// One zone of conntrack for all bridges would take equal connections of two
				// Networks for one.
				`iifname "nw*" notrack accept`,
			}, ahead, forged, untracked)},
		}}
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

// routerTable lets packets out, answers back, and nothing else.
func routerTable(n Network) Table {
	headers := 40 // of IPv4 and TCP
	if n.CIDR.Addr().Is6() {
		headers = 60
	}
	// What comes from outside may be larger than the Network takes, and the message that
	// says so may be lost on its way.
	forward := []string{fmt.Sprintf("tcp flags syn / syn,rst tcp option maxseg size set %d", n.MTU-headers)}
	if n.Egress {
		forward = append(forward,
			`iifname "lan" oifname "wan" accept`,
			`iifname "wan" oifname "lan" ct state established,related accept`)
	}
	return Table{Family: "inet", Name: TableName, Chains: []Chain{
		{"forward", routerForward, forward},
		{"input", routerInput, []string{
			`ct state established,related accept`,
			`meta l4proto icmp accept`,
			`meta l4proto ipv6-icmp accept`,
		}},
		{"postrouting", natPostrouting, []string{`oifname "wan" masquerade`}},
	}}
}
