//go:build linux

package node

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/tables"
)

// wiresTo returns the interfaces that lead to nodes.
func wiresTo(nodes []netip.Addr) (map[netip.Addr]tables.Wire, error) {
	wires, kinds := make(map[netip.Addr]tables.Wire, len(nodes)), map[int]string{}
	for _, address := range nodes {
		wire, err := wireTo(address, kinds)
		if err != nil {
			return nil, err
		}
		wires[address] = wire
	}
	return wires, nil
}

// wireTo returns the Ethernet interface that leads to a node. It returns none if there is no
// route, or another kind of interface. The VXLAN device then follows the routes of the node. kinds has
// the kinds of interfaces that are known already.
func wireTo(address netip.Addr, kinds map[int]string) (tables.Wire, error) {
	routes, err := netlink.RouteGet(address.AsSlice())
	for _, unreachable := range []error{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL} { // the last two: prohibit and blackhole
		if errors.Is(err, unreachable) {
			return tables.Wire{}, nil
		}
	}
	if err != nil {
		return tables.Wire{}, fmt.Errorf("find the route to node %s: %w", address, err)
	}
	if len(routes) == 0 {
		return tables.Wire{}, nil
	}
	index := routes[0].LinkIndex
	if _, known := kinds[index]; !known {
		link, err := netlink.LinkByIndex(index)
		if err != nil {
			return tables.Wire{}, fmt.Errorf("find the interface that leads to node %s: %w", address, err)
		}
		kinds[index] = link.Attrs().EncapType
	}
	if kinds[index] != "ether" {
		return tables.Wire{}, nil
	}
	wire := tables.Wire{Interface: uint32(index)}
	if routes[0].Gw == nil && routes[0].Via == nil {
		wire.Direct = 1
	}
	return wire, nil
}
