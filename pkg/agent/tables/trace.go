package tables

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// View has the entries that the programs of a node read.
type View struct {
	Tables
	Config
	// Wires lead to the Nodes.
	Wires map[netip.Addr]Wire
	// Name describes the interface with that index.
	Name func(index uint32) string
	// Exit says how the node treats packets from Networks to an address of the outside.
	Exit func(to netip.Addr) Exit
}

// Exit of a node to an address.
type Exit struct {
	// Interface by which the node leads there; 0 if it has no route.
	Interface uint32
	// Local: the address is one of the node's own.
	Local bool
	// Refusals are the comments of the rules that drop packets to the address. The rule api drops only those to the
	// port of the API server.
	Refusals []string
	// Unread: the rules could not be read, so Refusals are not known.
	Unread bool
}

// Trace says in sentences how the programs treat a packet from the port to the address. The last
// sentence begins with Delivered, Sent, or Dropped and the reason. It follows from_port in
// pkg/agent/bpf/src/pod2.c. A View lacks the routes of pods, so for an address that nobody has on
// the Network, Trace follows the packet to the gateway.
func (v View) Trace(from PortKey, to netip.Addr) []string {
	port, known := v.Ports[from]
	if !known {
		return []string{fmt.Sprintf("Dropped (stranger): the table of ports does not have %s.", v.Name(from))}
	}
	network, known := v.Networks[port.VNI]
	if !known {
		return []string{fmt.Sprintf("Dropped (stranger): the table of networks does not have VNI %d.", port.VNI)}
	}
	hops := []string{fmt.Sprintf("Sender: %s may send on VNI %d as %s with MAC %s. Other sources are dropped (mac, ip, arp, nd).", v.Name(from), port.VNI, port.IP, port.MAC)}
	ip, gateway := port.IP.Addr(), network.Gateway.Addr()
	group := to.IsMulticast() || to == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	ipv4Only6 := to.Is4() && !ip.Is4() // an IPv4 packet of a port that has IPv6 only
	switch {
	case ipv4Only6 && !group:
		return append(hops, fmt.Sprintf("Dropped (arp): the sender has no IPv4 address, so its ARP request for %s is refused.", to))
	case ipv4Only6:
		return append(hops, "Dropped (ip): the sender has no IPv4 address.")
	case group:
		return append(hops, fmt.Sprintf("Dropped (multicast): %s is a group. The programs flood nothing.", to))
	}
	mac, known := v.resolve(port.VNI, network, to)
	switch {
	case to == ip || known && mac == port.MAC:
		return append(hops, fmt.Sprintf("Delivered in the sender itself: %s is its own address, so the packet does not reach the programs.", to))
	case known:
		hops = append(hops, fmt.Sprintf("Neighbour: %s has MAC %s. The programs answer the sender's question themselves.", to, mac))
	case to.Is4() != gateway.Is4() || to.Is4() != ip.Is4() || !gateway.IsValid():
		return append(hops, fmt.Sprintf("Dropped (unknown): nobody has %s on VNI %d, and the sender has no gateway for it.", to, port.VNI))
	default:
		mac = dataplane.GatewayMAC(port.VNI)
		hops = append(hops, fmt.Sprintf("Neighbour: nobody has %s on VNI %d. If a route of the pod has it on the link, the pod's question is dropped (unknown).", to, port.VNI),
			fmt.Sprintf("Route: if the pod's route leads to the gateway, the packet leaves for %s with MAC %s.", gateway, mac))
	}
	hops = append(hops, fmt.Sprintf("Size: IP packets of up to %d bytes pass. Larger ones are dropped (oversized).", network.MTU))
	if mac == dataplane.GatewayMAC(port.VNI) {
		return append(hops, v.leave(port, network, to)...)
	}
	place := v.Places[PlaceKey{VNI: port.VNI, MAC: mac}]
	if place.Interface != 0 {
		return append(hops, v.deliver(port.VNI, place.Interface, mac))
	}
	return append(hops, v.encapsulate(port.VNI, place.Node.Addr())...)
}

// resolve returns the MAC address that the programs answer for an address, as src/neighbour.h does.
func (v View) resolve(vni int32, n Network, ip netip.Addr) (mac dataplane.MAC, known bool) {
	b, linkLocal := ip.As16(), false
	mac = dataplane.MACOf(ip)
	if [8]byte(b[:8]) == [8]byte{0xfe, 0x80} {
		mac = dataplane.MAC{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]}
		linkLocal = b[11] == 0xff && b[12] == 0xfe
	}
	gateway := dataplane.GatewayMAC(vni)
	if linkLocal && mac == gateway || !linkLocal && ip == n.Gateway.Addr() {
		return gateway, true
	}
	place, known := v.Places[PlaceKey{VNI: vni, MAC: mac}]
	return mac, known && (linkLocal || place.IP.Addr() == ip)
}

// deliver to a port of this node. Its index may belong to another pod by now.
func (v View) deliver(vni int32, index uint32, mac dataplane.MAC) string {
	if port, known := v.Ports[index]; !known || port.VNI != vni || port.MAC != mac {
		return fmt.Sprintf("Dropped (unknown): the tables lead to %s, which is not the port of %s on VNI %d.", v.Name(index), mac, vni)
	}
	return fmt.Sprintf("Delivered by %s to the pod.", v.Name(index))
}

// leave the Network through the gateway.
func (v View) leave(port Port, n Network, to netip.Addr) []string {
	if dropped := v.closed(port, n, to); dropped != "" {
		return []string{dropped}
	}
	rules := fmt.Sprintf("Rules of the node: the packet reaches them by %s as %s. If a Service has the address, the node replaces it first.", v.Name(v.Gateway), port.Transit)
	exit, last := v.Exit(to), ""
	switch {
	case slices.Contains(exit.Refusals, "denied"):
		last = fmt.Sprintf("Dropped (denied): %s is in --deny-cidrs.", to)
	case exit.Local || slices.Contains(exit.Refusals, "node"):
		last = fmt.Sprintf("Dropped (node): %s is an address of a node.", to)
	case exit.Interface == 0:
		last = fmt.Sprintf("Dropped without a count: the node has no route to %s.", to)
	case exit.Interface == v.Gateway:
		last = fmt.Sprintf("Dropped (network): %s is a transit address of another pod.", to)
	default:
		last = fmt.Sprintf("Sent by %s with an address of the node as source (NAT).", v.Name(exit.Interface))
		if slices.Contains(exit.Refusals, "api") {
			last += " TCP to the port of the API server is dropped (api)."
		}
		if exit.Unread {
			last += " The rules of the node could not be read: they may drop the packet (node, api, denied)."
		}
	}
	return []string{rules, last}
}

// closed says why the programs drop a packet for the gateway; "" if they do not.
func (v View) closed(port Port, n Network, to netip.Addr) string {
	switch {
	case to == n.Gateway.Addr() || to.IsLinkLocalUnicast() && to.Is6():
		return "Dropped (unknown), unless it is an ICMP echo request for the gateway: the programs answer those."
	case n.prefix().Contains(to):
		return fmt.Sprintf("Dropped (unknown): %s is an address of the Network, and the gateway leads to the outside only.", to)
	case port.Transit == Address{}:
		return "Dropped (unknown): the port has no transit address, because all of --transit-cidr are taken."
	case v.Gateway == 0:
		return "Dropped (unknown): the agent has not configured the programs yet."
	case n.Egress == 0:
		return "Dropped (egress): the Network has egress None."
	}
	return ""
}

func (v View) encapsulate(vni int32, node netip.Addr) []string {
	wire, known := v.Wires[node]
	switch {
	case !known:
		return []string{fmt.Sprintf("Dropped (unknown): the receiver is on node %s, which is not in the table of nodes.", node)}
	case v.VXLAN == 0:
		return []string{"Dropped without a count: the agent has not configured the programs yet."}
	case node.Is4() && v.Local.Is4() && wire.Interface != 0:
		return []string{
			fmt.Sprintf("Node: the receiver is on node %s, which accepts the packet if %s is in its table of nodes.", node, v.Local),
			fmt.Sprintf("Sent by %s: VXLAN with VNI %d from %s to %s, UDP port %d.", v.Name(wire.Interface), vni, v.Local, node, v.UDPPort),
		}
	}
	return []string{
		fmt.Sprintf("Node: the receiver is on node %s, which accepts the packet if the address of this node is in its table of nodes.", node),
		fmt.Sprintf("Sent by %s, which adds VXLAN with VNI %d to %s, UDP port %d.", v.Name(v.VXLAN), vni, node, v.UDPPort),
	}
}
