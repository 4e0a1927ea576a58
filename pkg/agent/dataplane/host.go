package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Host is what the kernel of a node holds of ours, or shall hold: its own network
// namespace, whose name is "", and those of the routers.
type Host []Namespace

// Namespace of the name; nil if there is none.
func (h Host) Namespace(name string) *Namespace {
	if i := slices.IndexFunc(h, func(n Namespace) bool { return n.Name == name }); i >= 0 {
		return &h[i]
	}
	return nil
}

// Namespace is a network namespace. Of the node's own, as read, it has what is ours by
// name, the links that are ports of our bridges, and veths that are on no bridge, since they
// may have been; and of routes those that the kernel made for links of ours. No list has a
// thing twice.
type Namespace struct {
	Name       string
	Links      []Link
	Addresses  []Address
	Routes     []Route
	Rules      []Rule
	FDB        []FDB
	Neighbours []Neighbour
	Sysctls    []Sysctl
	Tables     []Table
}

// Link of the name; nil if there is none.
func (n *Namespace) Link(name string) *Link {
	if n == nil {
		return nil
	}
	if i := slices.IndexFunc(n.Links, func(l Link) bool { return l.Name == name }); i >= 0 {
		return &n.Links[i]
	}
	return nil
}

// The kinds of links that are ours.
const (
	KindBridge = "bridge"
	KindVXLAN  = "vxlan"
	KindVeth   = "veth"
)

// KindHardware is that of links that no driver of virtual ones made.
const KindHardware = "device"

// Link is a network interface.
type Link struct {
	Name, Kind string
	// MAC is zero in what is wanted: whatever the kernel chose.
	MAC    MAC
	MTU    int
	Master string
	Up     bool
	// AutoAddress: the kernel gives it an IPv6 address.
	AutoAddress bool
	// Snooping of multicasts, and SpanningTree, of a bridge.
	Snooping, SpanningTree bool
	// VXLAN, of that kind.
	VXLAN VXLAN
	// Peer, of a veth: "namespace/name".
	Peer string
	// Port is how a bridge treats it; PortDefault for what is no port.
	Port PortFlags
}

// VXLAN is what such a link has for good.
type VXLAN struct {
	VNI      int32
	Local    netip.Addr
	UDPPort  uint16
	Learning bool
	// External: each packet says what its VNI is, and each entry for which it is.
	External bool
}

// PortFlags of a port of a bridge. A Blocked one would forward if its state in the
// spanning tree let it: it has a carrier, and its bridge is up.
type PortFlags struct{ Learning, Suppress, Flood, MulticastFlood, BroadcastFlood, Isolated, Blocked bool }

// PortDefault is what a new port has.
var PortDefault = PortFlags{Learning: true, Flood: true, MulticastFlood: true, BroadcastFlood: true}

// Address of an interface. Duplicates are not looked for: those of gateways are there
// on every node.
type Address struct {
	Dev    string
	Prefix netip.Prefix
	// Deaf: what the kernel put into the table local with it is gone, so that nobody is at
	// home there, nor says who is. None that is wanted is.
	Deaf bool
}

// Route by way of a gateway, or, without one, to who is on the link: such a route the
// kernel makes by itself with an address, and Src is that address if it is of IPv4.
type Route struct {
	Dst      netip.Prefix
	Via, Src netip.Addr
	Dev      string
	// More is all else that is said of it, "metric 5": nothing in what is wanted.
	More string
}

// Rule says which table of routes is asked, the lowest Priority first.
type Rule struct {
	IPv6            bool
	Priority, Table uint32
	// More is as of a Route: "from 10.0.0.0/8 iif lan".
	More string
}

// FDB is a static entry for a MAC address: with a Dst of a VXLAN device, whose packets
// go there, else of a bridge, whose frames go to the port Dev. A sticky one does not
// move to a port on which another sends with that address; a static one does.
type FDB struct {
	Dev    string
	MAC    MAC
	Sticky bool
	Dst    netip.Addr
	Own    Detour
}

// Detour is what an entry of a VXLAN device can have of its own: a VNI and a UDP port other
// than the device's, an interface (its index) other than that to which routing leads, or,
// in place of a Dst, a nexthop object. Nothing of that is wanted: a VNI is a Network, and
// the packets would be another's.
type Detour struct {
	VNI, Interface, NextHop uint32
	UDPPort                 uint16
}

// OfVXLAN says whether it is of a VXLAN device, not of a bridge.
func (f FDB) OfVXLAN() bool { return f.Dst.IsValid() || f.Own.NextHop != 0 }

// Neighbour is a permanent one.
type Neighbour struct {
	Dev string
	IP  netip.Addr
	MAC MAC
}

// Sysctl by its name, "net.ipv4.ip_forward".
type Sysctl struct{ Name, Value string }

// The sysctls that a namespace needs to route packets of a family.
const (
	forward4 = "net.ipv4.ip_forward"
	forward6 = "net.ipv6.conf.all.forwarding"
)

// Sysctls are those of which a reader has to know the value.
var Sysctls = []string{forward4, forward6}

// Table is one of nft. Rules and elements are in nft's own words.
type Table struct {
	Family, Name string
	Sets         []Set
	Chains       []Chain
}

// Set of elements in the order of their text: of type "ifname . ether_addr" for example
//
//	"veth5e11" . 0a:58:c0:a8:00:02
type Set struct {
	Name, Type string
	Elements   []string
	// Counter: each element counts the packets that it was found for. What was read does
	// not say so.
	Counter bool
}

// Chain with the rules of a hook, "type filter hook input priority 0; policy accept;",
// or to jump to if Hook is "".
type Chain struct {
	Name, Hook string
	Rules      []string
}

// id of a table, as nft calls it.
func (t Table) id() string { return t.Family + " " + t.Name }

// String is as nft list has it.
func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s {\n", t.id())
	for _, s := range t.Sets {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype %s\n", s.Name, s.Type)
		if s.Counter {
			b.WriteString("\t\tcounter\n")
		}
		if len(s.Elements) > 0 {
			fmt.Fprintf(&b, "\t\telements = { %s }\n", strings.Join(s.Elements, ",\n\t\t\t     "))
		}
		b.WriteString("\t}\n")
	}
	for _, c := range t.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
		for _, line := range append([]string{c.Hook}, c.Rules...) {
			if line != "" {
				fmt.Fprintf(&b, "\t\t%s\n", line)
			}
		}
		b.WriteString("\t}\n")
	}
	return b.String() + "}\n"
}

// sameSkeleton says whether only elements of sets differ.
func sameSkeleton(a, b Table) bool {
	return a.id() == b.id() &&
		slices.EqualFunc(a.Sets, b.Sets, func(a, b Set) bool { return a.Name == b.Name && a.Type == b.Type }) &&
		slices.EqualFunc(a.Chains, b.Chains, func(a, b Chain) bool {
			return a.Name == b.Name && a.Hook == b.Hook && slices.Equal(a.Rules, b.Rules)
		})
}

// Equal says whether two hosts have the same, in the same order.
func (h Host) Equal(other Host) bool {
	return slices.EqualFunc(h, other, func(a, b Namespace) bool {
		return a.Name == b.Name && slices.Equal(a.Links, b.Links) && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Routes, b.Routes) && slices.Equal(a.Rules, b.Rules) &&
			slices.Equal(a.FDB, b.FDB) && slices.Equal(a.Neighbours, b.Neighbours) && slices.Equal(a.Sysctls, b.Sysctls) &&
			slices.EqualFunc(a.Tables, b.Tables, func(a, b Table) bool {
				return sameSkeleton(a, b) && slices.EqualFunc(a.Sets, b.Sets, func(a, b Set) bool { return slices.Equal(a.Elements, b.Elements) })
			})
	})
}
