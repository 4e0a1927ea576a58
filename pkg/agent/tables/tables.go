// Package tables has the contents of the maps that the tc programs of package bpf read. Each type
// is the key or the value of one map.
//
//	ports     interface index of this node -> the addresses that it may send from
//	places    VNI and MAC address          -> a port of this node, or another node
//	networks  VNI                          -> MTU and gateway
//	nodes     address                      -> the interface that leads there
package tables

import (
	"net/netip"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// PortKey is the index of the host's end of the veth of a pod or of a router.
type PortKey = uint32

// Port has the addresses that an interface may send from. A router sends for everybody on its Network, with the
// gateway's MAC address.
type Port struct {
	VNI    int32
	MAC    dataplane.MAC
	IP     netip.Addr
	Router bool
}

// PlaceKey is the destination of a packet.
type PlaceKey struct {
	VNI int32
	MAC dataplane.MAC
}

// Place is where the owner of a MAC address is: behind the port Interface of this node or, if
// that is 0, on the node with the address Node. The programs answer ARP and neighbour
// solicitations for IP.
type Place struct {
	IP        netip.Addr
	Interface uint32
	Node      netip.Addr
}

// Network of which this node has a pod. Router is the index of its router's port; 0 if it has none.
type Network struct {
	MTU     int
	Gateway netip.Addr
	Router  uint32
}
