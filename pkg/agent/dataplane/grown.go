package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
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
	// Namespace is the name of the pod's network namespace.
	Namespace string
	// MAC and IP are those of the pod's interface.
	MAC   MAC
	IP    netip.Addr
	Route Route
}

// sandboxDirs are the directories in which container runtimes keep the network namespaces
// of pods. Both names are the same directory.
var sandboxDirs = []string{"/run/netns/", "/var/run/netns/"}

// grown records the route that a pod of this node needs if its Network has grown since the
// pod's address was published.
func (w *wanted) grown(n Network, m member, p Port) {
	if m.bits <= n.CIDR.Bits() {
		return
	}
	name := p.Sandbox[strings.LastIndex(p.Sandbox, "/")+1:]
	r := PodRoute{Network: n.VNI, Pod: m.pod.Namespace + "/" + m.pod.Name, Namespace: name, MAC: m.mac, IP: m.ip, Route: Route{Dst: n.CIDR, Dev: p.Inner}}
	if m.ip.Is4() {
		r.Route.Src = m.ip
	}
	if dir := strings.TrimSuffix(p.Sandbox, name); !slices.Contains(sandboxDirs, dir) || name == "" {
		w.problem("pod %s cannot reach all of %s until you recreate the pod: its network namespace %q is not in %s", r.Pod, n.CIDR, p.Sandbox, sandboxDirs[0])
		return
	}
	w.routes = append(w.routes, r)
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
	return Plan{{r.Network, r.Namespace, AppendRoute{r.Route}}}, nil
}
