package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Transit6 has the transit addresses of pods of IPv6 Networks. Their last 32 bits are the index of the pod's interface.
var Transit6 = netip.MustParsePrefix("fd64:706f:6432::/96")

// Host is the desired state of the node, apart from programs and their tables.
type Host struct {
	// Transits lead to GatewayName. The node forwards packets of their families.
	Transits []netip.Prefix
	Table    Table
}

// Equal says whether both are the same.
func (h Host) Equal(other Host) bool {
	return slices.Equal(h.Transits, other.Transits) && h.Table.String() == other.Table.String()
}

// Step is one change of the kernel. Text is the command of iproute2 or nft that does the same.
type Step struct{ Kind, Text string }

// Kinds of steps.
const (
	KindLink   = "link"
	KindRoute  = "route"
	KindSysctl = "sysctl"
	KindTable  = "table"
)

// Kinds of steps.
var Kinds = []string{KindLink, KindRoute, KindSysctl, KindTable}

// Plan is a list of steps.
type Plan []Step

// String has one step a line, in order.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.Text + "\n")
	}
	return b.String()
}

// Report is the result of a decision for people and metrics.
type Report struct {
	// Problems need somebody's attention. Each is a sentence; they are not in order of time.
	Problems []string
	// PodRoutes are the routes that pods of this node need after their Networks have grown.
	PodRoutes []PodRoute
}

// Want returns the desired state of the kernel. It returns false while the address of this
// node is unknown; then the kernel must stay unchanged.
func Want(s State) (Host, Report, bool) {
	if !slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Name == s.Node && len(n.Addresses) > 0 }) {
		return Host{}, Report{Problems: []string{fmt.Sprintf("node %s: the Node has no address that other nodes can send to; the data plane stays unchanged", s.Node)}}, false
	}
	here, host := s.here(), Host{Table: table(s)}
	for _, transit := range []netip.Prefix{s.Transit, Transit6} {
		if slices.ContainsFunc(here, func(n Network) bool {
			return n.Egress && n.Gateway.IsValid() && n.Gateway.Is4() == transit.Addr().Is4()
		}) {
			host.Transits = append(host.Transits, transit)
		}
	}
	return host, Report{PodRoutes: s.grown(here)}, true
}

// here are the Networks on this node in the order of their VNIs. If several have one VNI, it
// is the first by name.
func (s State) here() []Network {
	here := slices.Clone(s.Networks)
	slices.SortFunc(here, func(a, b Network) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return slices.CompactFunc(here, func(a, b Network) bool { return a.VNI == b.VNI })
}

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
	// Pod is "namespace/name".
	Pod string
	// Interface is the index of the node's end of the pod's interface, Inner the name of the pod's end.
	Interface uint32
	Inner     string
	// MAC and IP are those of the pod's interface.
	MAC MAC
	IP  netip.Addr
	Dst netip.Prefix
}

// grown returns the routes that pods of this node need because their Network has grown since
// their address was published.
func (s State) grown(here []Network) []PodRoute {
	var routes []PodRoute
	for _, p := range s.Ports {
		i, found := slices.BinarySearchFunc(here, p.VNI, func(n Network, vni int32) int { return cmp.Compare(n.VNI, vni) })
		if found && p.Bits > here[i].CIDR.Bits() && here[i].CIDR.Contains(p.IP) {
			routes = append(routes, PodRoute{Pod: p.Pod, Interface: p.Interface, Inner: p.Inner, MAC: p.MAC, IP: p.IP, Dst: here[i].CIDR})
		}
	}
	slices.SortFunc(routes, func(a, b PodRoute) int { return cmp.Compare(a.Interface, b.Interface) })
	return routes
}
