package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// PodRoute is the route that a pod needs after its Network has grown. The pod's interface
// keeps the prefix that the Network had when the pod's address was published:
//
//	blue grew from 192.168.0.0/29 to 192.168.0.0/28; a has 192.168.0.2/29, b has 192.168.0.9/28
//	b to a    leaves by net1: 192.168.0.2 is on its link
//	a to b    leaves by eth0, the pod's default route, until net1 has a route to 192.168.0.0/28
//
// The agent only adds a route. To give the address a shorter prefix length it would have to
// remove the address, and the pod would lose its connections.
type PodRoute struct {
	// Network is its VNI, Pod is "namespace/name".
	Network int32
	Pod     string
	// Interface is the index of the node's end of the pod's interface.
	Interface uint32
	// MAC and IP are those of the pod's interface.
	MAC   MAC
	IP    netip.Addr
	Route Route
}

// grown returns the routes that pods of this node need because their Network has grown since
// their address was published.
func (w *wanted) grown(here []Network) []PodRoute {
	var routes []PodRoute
	for _, p := range w.Ports {
		i, found := slices.BinarySearchFunc(here, p.VNI, func(n Network, vni int32) int { return cmp.Compare(n.VNI, vni) })
		if !found || p.Bits <= here[i].CIDR.Bits() || !here[i].CIDR.Contains(p.IP) {
			continue
		}
		r := PodRoute{Network: p.VNI, Pod: p.Pod, Interface: p.Interface, MAC: p.MAC, IP: p.IP, Route: Route{Dst: here[i].CIDR, Dev: p.Inner}}
		if p.IP.Is4() {
			r.Route.Src = p.IP
		}
		routes = append(routes, r)
	}
	slices.SortFunc(routes, func(a, b PodRoute) int { return cmp.Compare(a.Interface, b.Interface) })
	return routes
}

// Plan adds the route. It is empty if the interface is down, or already has a route to that
// destination, whichever program made it. is holds the interface in the pod's namespace,
// with its addresses and routes. An interface without the pod's MAC address and IP address
// is an error.
func (r PodRoute) Plan(is Namespace) (Plan, error) {
	l := is.Link(r.Route.Dev)
	if l == nil || l.MAC != r.MAC || !slices.ContainsFunc(is.Addresses, func(a Address) bool { return a.Prefix.Addr() == r.IP }) {
		return nil, fmt.Errorf("%s does not have the MAC address %s and the address %s", r.Route.Dev, r.MAC, r.IP)
	}
	if !l.Up || slices.ContainsFunc(is.Routes, func(route Route) bool { return route.Dst == r.Route.Dst }) {
		return nil, nil
	}
	return Plan{{r.Network, is.Name, AppendRoute{r.Route}}}, nil
}
