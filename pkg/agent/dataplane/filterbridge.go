package dataplane

import (
	"net/netip"
	"slices"
)

// binding is a port and the addresses that its pod may send from.
type binding struct {
	port string
	mac  MAC
	ip   netip.Addr
}

// bridgeTable makes each pod send from its own addresses only, and closes ports without a
// known pod. Frames pass between two known ports. They also pass between two ports that are
// in no set, as on bridges of other owners: a rule cannot match the bridge (meta ibrname),
// because some kernels are built without that.
//
//	ports      ports of pods
//	trunks     vx<vni> and rt<vni>
//	strangers  ports on the agent's bridges whose pod is not known
//	dropped    ports of pods; each element counts the packets that its pod forged
//
// Rules that match most frames come first, because set lookups are expensive.
//
// A trunk reaches pods only: a pod uses the gateway of its own node. Nothing reaches the
// node through the bridge itself. Otherwise any sender that knows the bridge's MAC address
// could have the node route its packets.
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
				// An ARP probe (RFC 5227) claims no address.
				`ether type arp iifname . arp saddr ether @mac arp saddr ip 0.0.0.0 accept`,
				`ether type arp counter jump spoofed comment "arp"`,
				// A pod is no router and must not answer for the address of another pod.
				`ether type ip6 icmpv6 type nd-router-advert counter jump spoofed comment "nd"`,
				`ether type ip6 icmpv6 type nd-redirect counter jump spoofed comment "nd"`,
				`ether type ip6 icmpv6 type nd-neighbor-advert iifname . ether saddr . icmpv6 taddr != @ip6 counter jump spoofed comment "nd"`,
				`ether type ip6 iifname . ether saddr . ip6 saddr @ip6 accept`,
				// Duplicate address detection, and multicast reports from pods without an address yet.
				`ether type ip6 icmpv6 type nd-neighbor-solicit ip6 saddr :: accept`,
				`ether type ip6 icmpv6 type mld2-listener-report drop`,
				`ether type ip6 counter jump spoofed comment "ip"`,
				// This includes VLAN tags: these rules cannot look inside them.
				`counter jump spoofed comment "protocol"`,
			}},
			{"prerouting", bridgePrerouting, []string{
				`iifname @trunks accept`,
				`ether type ip iifname . ether saddr . ip saddr @ip4 accept`,
				// ICMPv6 is left out, because it needs more checks.
				`ether type ip6 meta l4proto != ipv6-icmp iifname . ether saddr . ip6 saddr @ip6 accept`,
				`iifname @ports jump pod`,
				`iifname @strangers counter drop comment "stranger"`,
			}},
			{"spoofed", "", []string{
				`iifname @dropped drop`, // the element counts
				`drop`,
			}},
		}}
}
