package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/network/multus"
)

// Report is the result of a decision for people and metrics.
type Report struct {
	// Problems need somebody's attention. Each is a sentence; they are not in order of time.
	Problems []string
	// PodPorts are the open ports of pods.
	PodPorts []PodPort
	// PodRoutes are the routes that pods of this node need after their Networks have grown.
	PodRoutes []PodRoute
	// Strangers are ports of the agent's bridges whose pod is unknown. They are closed. A
	// stranger that stays is a problem; one that disappears soon was still being set up.
	Strangers []string
	// Networks that are on this node, and the pods on them, on any node.
	Networks, Pods int
}

// PodPort is an interface of this node, with its pod and its Network.
type PodPort struct{ Interface, Namespace, Pod, Network string }

// wanted is a decision in progress.
type wanted struct {
	State
	// networks are in the order of their VNIs; no two share one.
	networks []Network
	local    netip.Addr
	transits map[int32]uint32
	problems []string
	podPorts []PodPort
	routes   []PodRoute
}

// Want returns the desired state of the kernel. It returns false while the address of this
// node is unknown; then the kernel must stay unchanged.
//
// A Network is on this node if one of the node's pods is on it, or if its bridge has a port.
// CNI makes the bridge if CNI comes first. Want takes it over, whichever program made it.
func Want(s State) (Host, Report, bool) {
	w := &wanted{State: s}
	for _, n := range s.Nodes {
		if n.Name == s.Node {
			w.local = n.vtep(netip.Addr{})
		}
	}
	if !w.local.IsValid() {
		return nil, Report{Problems: []string{fmt.Sprintf("node %s: the Node has no address that other nodes can send to; the data plane stays unchanged", s.Node)}}, false
	}
	w.number()
	members, owners := w.claims(), w.owners()
	here := slices.DeleteFunc(slices.Clone(w.networks), func(n Network) bool { return !w.here(n, members[n.VNI]) })
	w.assignTransits(here)

	host := Namespace{}
	var routers Host
	var bindings []binding
	var trunks []string
	report := Report{Networks: len(here)}
	for _, n := range here {
		host.Links = append(host.Links, w.bridge(n), w.vxlan(n))
		trunks = append(trunks, vxlanName(n.VNI))
		if n.Gateway.IsValid() {
			routers = append(routers, w.router(n, &host))
			trunks = append(trunks, routerName(n.VNI))
		}
		report.Pods += len(members[n.VNI])
		w.remote(n, members[n.VNI], &host)
		bound := w.ports(n, members[n.VNI], owners)
		for _, b := range bound {
			host.Links = append(host.Links, w.port(b.port, n))
			host.FDB = append(host.FDB, FDB{Dev: b.port, MAC: b.mac, Sticky: true})
		}
		bindings = append(bindings, bound...)
	}
	report.PodPorts, report.PodRoutes, report.Strangers = w.podPorts, w.routes, w.strangers(bindings)
	host.Routes = connected(host.Addresses)
	host.Links = append(host.Links, w.spare(here)...)
	host.Tables = []Table{bridgeTable(bindings, trunks, report.Strangers), hostTable(s, Transit6)}
	host.Sysctls = sysctls(here)
	slices.Sort(w.problems)
	report.Problems = slices.Compact(w.problems)
	return append(Host{host}, routers...), report, true
}

// number keeps the Networks that have a VNI of their own.
func (w *wanted) number() {
	w.networks = slices.Clone(w.Networks)
	slices.SortFunc(w.networks, func(a, b Network) int {
		if a.VNI != b.VNI {
			return int(a.VNI - b.VNI)
		}
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	w.networks = slices.CompactFunc(w.networks, func(n, first Network) bool {
		if first.VNI == n.VNI {
			w.problem("Networks %s/%s and %s/%s both have VNI %d; only the first is served", first.Namespace, first.Name, n.Namespace, n.Name, n.VNI)
		}
		return first.VNI == n.VNI
	})
}

func (w *wanted) here(n Network, members []member) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.pod.Node == w.Node }) || len(w.Host.guests(n.VNI)) > 0
}

// guests are the ports of a Network's bridge that the agent did not make.
func (h Host) guests(vni int32) []string {
	var names []string
	if host := h.Namespace(""); host != nil {
		for _, l := range host.Links {
			if l.Master == multus.Bridge(vni) && OwnLink(l.Name) == 0 {
				names = append(names, l.Name)
			}
		}
	}
	return names
}

// spare are empty bridges of Networks that are not on this node. They stay: CNI may have
// just made one for a pod that the agent does not know yet, and be about to attach a port.
// If the agent removed the bridge now, the port would never get one.
func (w *wanted) spare(here []Network) []Link {
	var links []Link
	for _, n := range w.networks {
		host := w.Host.Namespace("")
		if host.Link(multus.Bridge(n.VNI)) != nil && !slices.ContainsFunc(here, func(h Network) bool { return h.VNI == n.VNI }) {
			links = append(links, w.bridge(n))
		}
	}
	return links
}

func (w *wanted) bridge(n Network) Link {
	return Link{Name: multus.Bridge(n.VNI), Kind: KindBridge, MAC: bridgeMAC(n.VNI), MTU: n.MTU, Up: true, Port: PortDefault}
}

func (w *wanted) vxlan(n Network) Link {
	return Link{Name: vxlanName(n.VNI), Kind: KindVXLAN, MTU: n.MTU, Master: multus.Bridge(n.VNI), Up: true,
		VXLAN: VXLAN{VNI: n.VNI, Local: w.local, UDPPort: w.UDPPort}, Port: PortFlags{Suppress: true}}
}

// remote adds the pods of other nodes: their VXLAN destinations and their addresses.
func (w *wanted) remote(n Network, members []member, host *Namespace) {
	vteps, mixed := map[string]netip.Addr{}, map[string]bool{}
	for _, node := range w.Nodes {
		if vtep := node.vtep(w.local); vtep.IsValid() {
			vteps[node.Name] = vtep
		} else if len(node.Addresses) > 0 {
			mixed[node.Name] = true
		}
	}
	bridge, vxlan := multus.Bridge(n.VNI), vxlanName(n.VNI)
	host.FDB, host.Neighbours = slices.Grow(host.FDB, 2*len(members)), slices.Grow(host.Neighbours, len(members))
	for _, m := range members {
		vtep, known := vteps[m.pod.Node]
		if m.pod.Node == w.Node || !known {
			if mixed[m.pod.Node] {
				w.problem("node %s: the Node has no address of the same family as %s, which this node sends VXLAN from; its pods are unreachable", m.pod.Node, w.local)
				delete(mixed, m.pod.Node)
			}
			continue
		}
		host.FDB = append(host.FDB, FDB{Dev: vxlan, MAC: m.mac, Dst: vtep}, FDB{Dev: vxlan, MAC: m.mac, Sticky: true})
		host.Neighbours = append(host.Neighbours, Neighbour{bridge, m.ip, m.mac})
	}
}

// ports are the ports of this node's pods, in the order of addresses. A pod has one port,
// the newest. An older one belongs to a sandbox that is gone or about to go.
func (w *wanted) ports(n Network, members []member, owners map[string]Port) []binding {
	newest := map[types.UID]Port{}
	for _, name := range slices.Concat(w.Host.guests(n.VNI), w.astray(n, owners)) {
		p, ok := owners[name]
		if old, several := newest[p.PodUID]; ok && (!several || cmp.Or(p.Made.Compare(old.Made), strings.Compare(name, old.Interface)) > 0) {
			newest[p.PodUID] = p
		}
	}
	var bindings []binding
	for _, m := range members {
		if p, ok := newest[m.pod.UID]; ok && m.pod.Node == w.Node {
			bindings = append(bindings, binding{p.Interface, m.mac, m.ip})
			w.podPorts = append(w.podPorts, PodPort{p.Interface, m.pod.Namespace, m.pod.Name, n.Name})
			w.grown(n, m, p)
		}
	}
	return bindings
}

// astray are ports that CNI put on the bridge of a Network and that now have no bridge,
// because something removed the bridge. CNI does not put them back.
func (w *wanted) astray(n Network, owners map[string]Port) []string {
	var names []string
	host := w.Host.Namespace("")
	for name, p := range owners {
		if l := host.Link(name); l != nil && l.Master == "" && l.Kind == KindVeth && p.Bridge == multus.Bridge(n.VNI) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// port of a pod, as CNI makes it: up, on its bridge, with the flags of any port.
//
// Its MTU is the Network's or more. With a smaller MTU, packets in both directions would get
// lost: a veth silently drops packets that are larger than the MTU of the other end. The MTU
// is larger if the Network's was larger when the pod started. The pod's own end has the
// larger MTU too, so pods of this node send each other such packets until they are replaced.
// A larger MTU has no other effect: bridges drop packets that exceed the next port's MTU.
func (w *wanted) port(name string, n Network) Link {
	l := *w.Host.Namespace("").Link(name)
	l.Master, l.Up, l.Port, l.MTU = multus.Bridge(n.VNI), true, PortDefault, max(l.MTU, n.MTU)
	return l
}

func (w *wanted) strangers(bindings []binding) []string {
	known := map[string]bool{}
	for _, b := range bindings {
		known[b.port] = true
	}
	var names []string
	if host := w.Host.Namespace(""); host != nil {
		for _, l := range host.Links {
			if OwnBridge(l.Master) != 0 && OwnLink(l.Name) == 0 && !known[l.Name] {
				names = append(names, l.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// router is the namespace of a Network's gateway. It also adds the router's links, addresses
// and routes on the node to host.
func (w *wanted) router(n Network, host *Namespace) Namespace {
	ns := Namespace{Name: namespaceName(n.VNI), Tables: []Table{routerTable(n)}, Rules: kernelRules(n.Gateway.Is6())}
	veth := func(name, peer string) Link {
		return Link{Name: name, Kind: KindVeth, MTU: n.MTU, Up: true, Peer: peer, Port: PortDefault}
	}
	inner := veth(lan, "/"+routerName(n.VNI))
	inner.MAC = GatewayMAC(n.VNI)
	outer := veth(routerName(n.VNI), ns.Name+"/"+lan)
	outer.Master = multus.Bridge(n.VNI)
	outer.Port.Learning = false
	host.Links = append(host.Links, outer)
	host.FDB = append(host.FDB, FDB{Dev: outer.Name, MAC: inner.MAC, Sticky: true})
	ns.Links = append(ns.Links, inner)
	ns.Addresses = append(ns.Addresses, Address{Dev: lan, Prefix: netip.PrefixFrom(n.Gateway, n.CIDR.Bits())})
	forward, everywhere := forward4, netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if n.Gateway.Is6() {
		forward, everywhere = forward6, netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		// Neighbour solicitations need a link-local address of the link as their source.
		ns.Addresses = append(ns.Addresses, Address{Dev: lan, Prefix: netip.PrefixFrom(inner.MAC.linkLocal(), 64)})
	}
	ns.Sysctls = []Sysctl{{forward, "1"}}
	transit, ok := w.transitOf(n)
	if !ok {
		ns.Routes = connected(ns.Addresses)
		return ns
	}
	ns.Links = append(ns.Links, veth(wan, "/"+wanName(n.VNI)))
	host.Links = append(host.Links, veth(wanName(n.VNI), ns.Name+"/"+wan))
	ns.Addresses = append(ns.Addresses, Address{Dev: wan, Prefix: transit.router})
	host.Addresses = append(host.Addresses, Address{Dev: wanName(n.VNI), Prefix: transit.host})
	if n.Gateway.Is6() {
		ns.Addresses = append(ns.Addresses, Address{Dev: wan, Prefix: netip.MustParsePrefix("fe80::2/64")})
		host.Addresses = append(host.Addresses, Address{Dev: wanName(n.VNI), Prefix: netip.MustParsePrefix("fe80::1/64")})
	}
	ns.Routes = append(connected(ns.Addresses), Route{Dst: everywhere, Via: transit.host.Addr(), Dev: wan})
	return ns
}

// sysctls of the node turn on routing for the packets that leave a Network.
func sysctls(here []Network) []Sysctl {
	var list []Sysctl
	for _, name := range Sysctls {
		if slices.ContainsFunc(here, func(n Network) bool {
			return n.Egress && n.Gateway.IsValid() && n.Gateway.Is6() == (name == forward6)
		}) {
			list = append(list, Sysctl{name, "1"})
		}
	}
	return list
}
