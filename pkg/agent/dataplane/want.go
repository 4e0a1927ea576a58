package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pod2/pod2/pkg/network/multus"
)

// Report is the result of a decision for people and metrics.
type Report struct {
	// Problems need somebody's attention. Each is a sentence; they are not in order of time.
	Problems []string
	// PodRoutes are the routes that pods of this node need after their Networks have grown.
	PodRoutes []PodRoute
	// Bridges are those of an earlier agent that still have ports of pods. These pods keep
	// their paths as they were until the node is drained.
	Bridges []string
}

// wanted is a decision in progress.
type wanted struct {
	State
	transits map[int32]uint32
	problems []string
}

// Want returns the desired state of the kernel. It returns false while the address of this
// node is unknown; then the kernel must stay unchanged.
func Want(s State) (Host, Report, bool) {
	if !slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Name == s.Node && len(n.Addresses) > 0 }) {
		return nil, Report{Problems: []string{fmt.Sprintf("node %s: the Node has no address that other nodes can send to; the data plane stays unchanged", s.Node)}}, false
	}
	w := &wanted{State: s}
	here, host, routers := w.here(), Namespace{}, Host(nil)
	w.assignTransits(here)
	for _, n := range here {
		if n.Gateway.IsValid() {
			routers = append(routers, w.router(n, &host))
		}
	}
	report := Report{PodRoutes: w.grown(here), Bridges: s.Host.oldBridges()}
	host.Routes = connected(host.Addresses)
	host.Tables = []Table{hostTable(s)}
	host.Sysctls = sysctls(here)
	slices.Sort(w.problems)
	report.Problems = w.problems
	return append(Host{host}, routers...), report, true
}

// here are the Networks on this node in the order of their VNIs. If several have one VNI, it
// is the first by name.
func (w *wanted) here() []Network {
	here := filter(w.Networks, func(n Network) bool { return slices.Contains(w.Here, n.VNI) })
	slices.SortFunc(here, func(a, b Network) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return slices.CompactFunc(here, func(a, b Network) bool { return a.VNI == b.VNI })
}

// oldBridges are bridges of an earlier agent that have ports of pods, in order.
func (h Host) oldBridges() []string {
	var names []string
	for _, l := range or(h.Namespace("")).Links {
		if OwnBridge(l.Master) != 0 && OwnLink(l.Name) == 0 {
			names = append(names, l.Master)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// router is the namespace of a Network's gateway. It also adds the router's links and
// addresses on the node to host.
func (w *wanted) router(n Network, host *Namespace) Namespace {
	ns := Namespace{Name: namespaceName(n.VNI), Tables: []Table{routerTable(n)}, Rules: kernelRules(n.Gateway.Is6())}
	veth := func(name, peer string) Link {
		return Link{Name: name, Kind: KindVeth, MTU: n.MTU, Up: true, Peer: peer}
	}
	inner, outer := veth(lan, "/"+RouterName(n.VNI)), veth(RouterName(n.VNI), ns.Name+"/"+lan)
	inner.MAC = GatewayMAC(n.VNI)
	is, bridge := w.Host.Namespace("").Link(outer.Name), multus.Bridge(n.VNI)
	if is != nil && is.Master == bridge && slices.Contains(w.Host.oldBridges(), bridge) {
		outer.Master = bridge // its pods keep their gateway
	}
	host.Links = append(host.Links, outer)
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
