// Package tables has the contents of the maps that the tc programs of package bpf read. Each type
// is the key or the value of one map, in the layout of bpf/src/layout.h.
//
//	ports     interface index of this node -> the addresses that it may send from, and its transit address
//	places    VNI and MAC address          -> a port of this node, or another node
//	networks  VNI                          -> MTU, gateway and egress
//	nodes     address                      -> nothing: the set of other nodes
//	transits  transit address              -> the port that has it
//
// Desired keeps the contents and answers each event with the entries that change. Tests compare
// it with Full, which computes the same contents from lists.
package tables

import (
	"fmt"
	"net/netip"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Address is an address as the programs compare it: IPv4 is mapped, none is zero.
type Address [16]byte

// AddressOf is zero if the address is not valid.
func AddressOf(a netip.Addr) Address {
	if !a.IsValid() {
		return Address{}
	}
	return a.As16()
}

// Addr is not valid if the address is zero.
func (a Address) Addr() netip.Addr {
	if a == (Address{}) {
		return netip.Addr{}
	}
	return netip.AddrFrom16(a).Unmap()
}

func (a Address) String() string { return a.Addr().String() }

// PortKey is the index of the host's end of the veth of a pod.
type PortKey = uint32

// Port has the addresses that an interface may send from.
type Port struct {
	VNI  int32
	MAC  dataplane.MAC
	Zero uint16 // as in PlaceKey
	IP   Address
	// Transit is the address that the node sees instead of IP. It is zero if none was free: then packets of the port
	// do not leave the Network.
	Transit Address
}

// PlaceKey is the destination of a packet.
type PlaceKey struct {
	VNI int32
	MAC dataplane.MAC
	// Zero fills the structure, because the kernel compares all bytes of a key.
	Zero uint16
}

// Place is where the owner of a MAC address is: behind the port Interface of this node or, if
// that is 0, on the node with the address Node. The programs answer ARP and neighbour
// solicitations for IP.
type Place struct {
	Interface uint32
	Node, IP  Address
}

// Network of which this node has a pod.
type Network struct {
	MTU int32
	// Gateway is zero if the Network has none. Bits is the length of its prefix, of the 128 bits of an Address.
	Bits    int32
	Gateway Address
	// MAC is the gateway's.
	MAC dataplane.MAC
	// Egress is 1 if packets may leave through the gateway.
	Egress uint16
}

// NetworkOf is the entry of a Network.
func NetworkOf(n *dataplane.Network) Network {
	entry := Network{MTU: int32(n.MTU), Bits: int32(n.CIDR.Bits()), Gateway: AddressOf(n.Gateway), MAC: dataplane.GatewayMAC(n.VNI)}
	if n.Gateway.Is4() {
		entry.Bits += 96 // those that map it
	}
	if n.Egress {
		entry.Egress = 1
	}
	return entry
}

// prefix is that of the gateway.
func (n Network) prefix() netip.Prefix {
	gateway := n.Gateway.Addr()
	return netip.PrefixFrom(gateway, int(n.Bits)-128+gateway.BitLen())
}

// Wire is an interface that leads to another node. Package node finds it in the routes of this node.
type Wire struct {
	// Interface is 0 if the node has no route, or a route by an interface without Ethernet headers.
	Interface uint32
	// Direct is 1 if the node is on the link. Otherwise the kernel looks up the next hop of each packet.
	Direct uint32
}

// Tables are the contents of all maps. Networks are by VNI.
type Tables struct {
	Ports    map[PortKey]Port
	Places   map[PlaceKey]Place
	Networks map[int32]Network
	Nodes    map[netip.Addr]struct{}
	Transits map[netip.Addr]PortKey
}

// Config of the programs.
type Config struct {
	// Local is the address of this node that VXLAN packets have, of the family of the nodes. If it is IPv6, all packets
	// go through the VXLAN device.
	Local netip.Addr
	// VXLAN is the index of the VXLAN device.
	VXLAN uint32
	// UDPPort of VXLAN.
	UDPPort uint16
	// Gateway is the index of the interface pod2gw, by which packets leave Networks. It has the MAC address
	// dataplane.NodeMAC.
	Gateway uint32
}

// Map is one of the five maps.
type Map uint8

// The maps, in the order of the fields of Tables.
const (
	PortMap Map = iota
	PlaceMap
	NetworkMap
	NodeMap
	TransitMap
)

func (m Map) String() string {
	return [...]string{"ports", "places", "networks", "nodes", "transits"}[m]
}

// Key of an entry of any map. Only the field of that map counts: Port, Place, VNI, and Address of the last two.
type Key struct {
	Map     Map
	Port    PortKey
	Place   PlaceKey
	VNI     int32
	Address netip.Addr
}

// Raw is the key as its map has it.
func (k Key) Raw() any {
	switch k.Map {
	case PortMap:
		return k.Port
	case PlaceMap:
		return k.Place
	case NetworkMap:
		return k.VNI
	}
	return AddressOf(k.Address)
}

// String is the key without its map, such as "1001 0a:58:c0:a8:00:03".
func (k Key) String() string { return fmt.Sprint(k.Raw()) }

// Change sets or deletes one entry of a map.
type Change struct {
	Key
	// Value has the type of the map's values in Tables. Nil deletes the entry.
	Value any
}

// String is one line, such as "places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.2 192.168.0.3".
func (c Change) String() string {
	switch v := c.Value.(type) {
	case nil:
		return fmt.Sprintf("%s delete %s", c.Map, c.Key)
	case struct{}:
		return fmt.Sprintf("%s set %s", c.Map, c.Key)
	case PortKey:
		return fmt.Sprintf("%s set %s -> port %d", c.Map, c.Key, v)
	default:
		return fmt.Sprintf("%s set %s -> %s", c.Map, c.Key, v)
	}
}

func (p Port) String() string {
	s := fmt.Sprintf("%d %s %s", p.VNI, p.MAC, p.IP)
	if p.Transit != (Address{}) {
		s += fmt.Sprintf(" transit %s", p.Transit)
	}
	return s
}

func (k PlaceKey) String() string { return fmt.Sprintf("%d %s", k.VNI, k.MAC) }

func (p Place) String() string {
	if p.Interface != 0 {
		return fmt.Sprintf("port %d %s", p.Interface, p.IP)
	}
	return fmt.Sprintf("node %s %s", p.Node, p.IP)
}

func (n Network) String() string {
	s := fmt.Sprintf("mtu %d", n.MTU)
	if n.Gateway != (Address{}) {
		s += fmt.Sprintf(" gateway %s", n.prefix())
	}
	if n.Egress == 1 {
		s += " egress"
	}
	return s
}

// Empty are tables without an entry.
func Empty() Tables {
	return Tables{map[PortKey]Port{}, map[PlaceKey]Place{}, map[int32]Network{}, map[netip.Addr]struct{}{}, map[netip.Addr]PortKey{}}
}

// Apply makes the change.
func (t Tables) Apply(c Change) {
	switch c.Map {
	case PortMap:
		put(t.Ports, c.Port, c.Value)
	case PlaceMap:
		put(t.Places, c.Place, c.Value)
	case NetworkMap:
		put(t.Networks, c.VNI, c.Value)
	case NodeMap:
		put(t.Nodes, c.Address, c.Value)
	case TransitMap:
		put(t.Transits, c.Address, c.Value)
	}
}

func put[K comparable, V any](m map[K]V, key K, value any) {
	if value == nil {
		delete(m, key)
		return
	}
	m[key] = value.(V)
}

// value of the entry with the key; nil if there is none.
func (t Tables) value(k Key) any {
	switch k.Map {
	case PortMap:
		return get(t.Ports, k.Port)
	case PlaceMap:
		return get(t.Places, k.Place)
	case NetworkMap:
		return get(t.Networks, k.VNI)
	case NodeMap:
		return get(t.Nodes, k.Address)
	}
	return get(t.Transits, k.Address)
}

func get[K comparable, V any](m map[K]V, key K) any {
	if v, exists := m[key]; exists {
		return v
	}
	return nil
}
