package dataplane

import (
	"slices"
	"strings"

	"github.com/pod2/pod2/pkg/network/multus"
)

// Diff returns the steps that turn the observed host into the desired one. It leaves alone
// everything that already matches, so no packet is lost, and everything that the agent does
// not own.
//
// An earlier agent connected pods by bridges. Diff removes its bridges, VXLAN devices and
// bridge table. A bridge that still has ports of pods stays, with its VXLAN device and the
// bridge table, until the pods are gone.
func Diff(is, want Host) Plan {
	d := &differ{is: is, want: want, is0: or(is.Namespace("")), want0: or(want.Namespace(""))}
	d.tables("", d.is0, d.want0)
	d.sysctls("", d.is0, d.want0)
	for _, vni := range d.vnis() {
		d.vni = vni
		d.network()
	}
	d.vni = 0
	d.removeTables("", d.is0, d.want0)
	return d.plan
}

type differ struct {
	is, want   Host
	is0, want0 *Namespace
	plan       Plan
	// vni is the Network that the differ looks at; 0 is the node.
	vni int32
	// The keys are "namespace/name". fresh are links that were just made: they have nothing
	// that a former link had. gone are links that were removed, with everything on them. bare
	// are links whose IPv4 routes the kernel has removed with the last address.
	fresh, gone, bare map[string]bool
}

func or(n *Namespace) *Namespace {
	if n == nil {
		return &Namespace{}
	}
	return n
}

func (d *differ) add(namespace string, a Action) {
	d.plan = append(d.plan, Step{d.vni, namespace, a})
}

// vnis returns the VNIs of all Networks that the host has or shall have, in order.
func (d *differ) vnis() []int32 {
	var vnis []int32
	for _, h := range []Host{d.is, d.want} {
		for _, ns := range h {
			vnis = append(vnis, OwnNamespace(ns.Name))
		}
		for _, l := range or(h.Namespace("")).Links {
			vnis = append(vnis, OwnLink(l.Name))
		}
	}
	slices.Sort(vnis)
	return slices.DeleteFunc(slices.Compact(vnis), func(vni int32) bool { return vni == 0 })
}

// network plans all steps of one Network. It first removes obstacles. Then it makes the
// router, and closes it before it connects it. The links follow, and the addresses last.
func (d *differ) network() {
	d.fresh, d.gone, d.bare = map[string]bool{}, map[string]bool{}, map[string]bool{}
	name := namespaceName(d.vni)
	isRouter, wantRouter := d.is.Namespace(name), d.want.Namespace(name)
	d.removeLinks()
	if wantRouter != nil && isRouter == nil {
		d.add("", AddNamespace{name})
		isRouter = &Namespace{Rules: wantRouter.Rules} // a new namespace has these
	}
	if wantRouter == nil && isRouter != nil {
		d.add("", DelNamespace{name})
		isRouter = nil // with all its content
	}
	isRouter, wantRouter = or(isRouter), or(wantRouter)
	d.strays(name, isRouter, wantRouter)
	d.tables(name, isRouter, wantRouter)
	d.removeTables(name, isRouter, wantRouter)
	d.sysctls(name, isRouter, wantRouter)
	for _, link := range []string{RouterName(d.vni), wanName(d.vni)} {
		if l := d.want0.Link(link); l != nil {
			d.link(*l, isRouter, wantRouter)
		}
	}
	for _, l := range wantRouter.Links {
		d.set(name, isRouter, l)
	}
	d.gateway(name, isRouter, wantRouter)
}

func filter[T any](list []T, keep func(T) bool) []T {
	var kept []T
	for _, x := range list {
		if keep(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// removeLinks removes the Network's links that are not wanted. The bridge is last.
func (d *differ) removeLinks() {
	names := []string{wanName(d.vni), RouterName(d.vni), vxlanName(d.vni), multus.Bridge(d.vni)}
	if slices.Contains(d.is.oldBridges(), multus.Bridge(d.vni)) {
		names = names[:2]
	}
	for _, name := range names {
		if d.is0.Link(name) != nil && d.want0.Link(name) == nil {
			d.add("", DelLink{name})
			d.gone["/"+name] = true
		}
	}
}

// link makes a link of the node, with its peer in the router's namespace. It replaces a
// link that is not such a veth.
func (d *differ) link(want Link, isRouter, wantRouter *Namespace) {
	is := d.is0.Link(want.Name)
	if is != nil && is.Kind == want.Kind && is.Peer == want.Peer {
		d.set("", d.is0, want)
		return
	}
	if is != nil {
		d.add("", DelLink{want.Name})
	}
	namespace, peer, _ := strings.Cut(want.Peer, "/")
	if stray := isRouter.Link(peer); stray != nil && stray.Peer != "/"+want.Name {
		d.add(namespace, DelLink{peer})
	}
	d.fresh[namespace+"/"+peer], d.fresh["/"+want.Name] = true, true
	d.add("", AddVeth{want, namespace, *wantRouter.Link(peer)})
	d.set("", d.is0, want)
}

// set changes the properties that differ. The link exists, or was just made.
func (d *differ) set(namespace string, in *Namespace, want Link) {
	is := in.Link(want.Name)
	if d.fresh[namespace+"/"+want.Name] {
		made := asMade(want)
		is = &made
	}
	if is == nil {
		return // its peer was moved away, so its end on the node is made anew
	}
	was := *is
	if d.gone[namespace+"/"+was.Master] {
		was.Master = ""
	}
	if (want.MAC == MAC{}) {
		want.MAC = was.MAC
	}
	if was != want {
		d.add(namespace, SetLink{was, want})
	}
}

// asMade is a link after AddVeth: it is down and on no bridge. It would give itself an IPv6
// address once up.
func asMade(want Link) Link {
	want.Up, want.AutoAddress, want.Master = false, true, ""
	return want
}

// remains returns the things whose link was neither removed nor made anew.
func remains[T any](d *differ, namespace string, list []T, dev func(T) string) []T {
	return filter(list, func(x T) bool { return !d.fresh[namespace+"/"+dev(x)] && !d.gone[namespace+"/"+dev(x)] })
}

// addresses returns the addresses that stay. It removes a deaf address and adds it again.
// To put back its route in the table local instead would leak the route: for IPv6, the
// kernel would not remove it with the address.
func (d *differ) addresses(namespace string, is, want []Address) (stay []Address) {
	is = remains(d, namespace, is, func(a Address) string { return a.Dev })
	for _, a := range is {
		if !slices.Contains(want, a) {
			d.add(namespace, DelAddress{a})
		}
	}
	for _, a := range want {
		// When the first IPv4 address of a subnet is removed, the kernel removes the others too.
		first := slices.IndexFunc(is, func(b Address) bool { return b.Dev == a.Dev && b.Prefix.Masked() == a.Prefix.Masked() })
		if slices.Contains(is, a) && (a.Prefix.Addr().Is6() || slices.Contains(want, is[first])) {
			stay = append(stay, a)
		} else {
			d.add(namespace, AddAddress{a})
		}
	}
	for _, a := range is {
		is4 := func(b Address) bool { return b.Dev == a.Dev && b.Prefix.Addr().Is4() }
		d.bare[namespace+"/"+a.Dev] = slices.ContainsFunc(is, is4) && !slices.ContainsFunc(stay, is4)
	}
	return stay
}

func (d *differ) sysctls(namespace string, is, want *Namespace) {
	for _, s := range want.Sysctls {
		if !slices.Contains(is.Sysctls, s) {
			d.add(namespace, SetSysctl{s})
		}
	}
}
