package dataplane

import (
	"net/netip"
	"slices"
)

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
