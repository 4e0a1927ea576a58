package dataplane

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pod2/pod2/pkg/network/multus"
)

// Diff is what makes of a host as it is one as it is wanted. Nothing that is as it is
// wanted is touched, so that no packet notices, and of nothing that is not ours: a bridge
// with ports of others stays, since pods are behind them.
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
	// vni of the Network that is being looked at; 0: the node.
	vni int32
	// fresh links were just made, "namespace/name": they have nothing of what the former
	// had. gone are those that were removed, and what was on them with them. flushed are
	// bridges of which the kernel has just flushed the neighbours, bare are links of which it
	// has flushed the routes of IPv4, with the last address.
	fresh, gone, flushed, bare map[string]bool

	entries map[int32]*entries
}

// entries of a Network, in and out.
type entries struct {
	isFDB, wantFDB               []FDB
	isNeighbours, wantNeighbours []Neighbour
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

// vnis of all Networks of which there is or shall be something, in order, and deals the
// entries out to them.
func (d *differ) vnis() []int32 {
	d.entries = map[int32]*entries{}
	masters := map[string]int32{}
	of := func(vni int32) *entries {
		if d.entries[vni] == nil {
			d.entries[vni] = &entries{}
		}
		return d.entries[vni]
	}
	for _, h := range []Host{d.is, d.want} {
		for _, ns := range h {
			if vni := OwnNamespace(ns.Name); vni != 0 {
				of(vni)
			}
		}
		for _, l := range or(h.Namespace("")).Links {
			if vni := cmp.Or(OwnLink(l.Name), OwnBridge(l.Master)); vni != 0 {
				of(vni)
				masters[l.Name] = vni
			}
		}
	}
	deal(d.is0.FDB, func(f FDB) string { return f.Dev }, func(dev string) *[]FDB { return &of(masters[dev]).isFDB })
	deal(d.want0.FDB, func(f FDB) string { return f.Dev }, func(dev string) *[]FDB { return &of(masters[dev]).wantFDB })
	deal(d.is0.Neighbours, func(n Neighbour) string { return n.Dev }, func(dev string) *[]Neighbour { return &of(masters[dev]).isNeighbours })
	deal(d.want0.Neighbours, func(n Neighbour) string { return n.Dev }, func(dev string) *[]Neighbour { return &of(masters[dev]).wantNeighbours })
	var vnis []int32
	for vni := range d.entries {
		if vni != 0 {
			vnis = append(vnis, vni)
		}
	}
	slices.Sort(vnis)
	return vnis
}

// deal a list out to those of the devices; entries of one device come in a row.
func deal[T any](list []T, dev func(T) string, to func(dev string) *[]T) {
	for len(list) > 0 {
		name, n := dev(list[0]), 1
		for n < len(list) && dev(list[n]) == name {
			n++
		}
		of := to(name)
		*of = append(*of, list[:n]...)
		list = list[n:]
	}
}

// network is all of one: what is in the way goes first, then the router is made, closed
// before it is connected, then the links, then what leads to pods, and the gateway last.
func (d *differ) network() {
	d.fresh, d.gone, d.flushed, d.bare = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	name := namespaceName(d.vni)
	isRouter, wantRouter := d.is.Namespace(name), d.want.Namespace(name)
	d.removeLinks()
	if wantRouter != nil && isRouter == nil {
		d.add("", AddNamespace{name})
		isRouter = &Namespace{Rules: wantRouter.Rules} // which a new one has
	}
	if wantRouter == nil && isRouter != nil {
		d.add("", DelNamespace{name})
		isRouter = nil // and what was in it
	}
	isRouter, wantRouter = or(isRouter), or(wantRouter)
	d.strays(name, isRouter, wantRouter)
	d.tables(name, isRouter, wantRouter)
	d.removeTables(name, isRouter, wantRouter)
	d.sysctls(name, isRouter, wantRouter)
	for _, link := range []string{multus.Bridge(d.vni), vxlanName(d.vni), routerName(d.vni), wanName(d.vni)} {
		if l := d.want0.Link(link); l != nil {
			d.link(*l, isRouter, wantRouter)
		}
	}
	for _, l := range d.want0.Links {
		if OwnBridge(l.Master) == d.vni && OwnLink(l.Name) == 0 {
			d.set("", d.is0, l)
		}
	}
	for _, l := range wantRouter.Links {
		d.set(name, isRouter, l)
	}
	bridged := func(dev string) bool { return OwnLink(dev) == d.vni && dev != wanName(d.vni) }
	d.addresses("", d.is0.on(bridged).Addresses, d.want0.on(bridged).Addresses) // with which neighbours go
	d.fdb()
	d.neighbours()
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

// removeLinks of ours that are not wanted, the bridge last, and only if nobody else
// is on it.
func (d *differ) removeLinks() {
	for _, name := range []string{wanName(d.vni), routerName(d.vni), vxlanName(d.vni), multus.Bridge(d.vni)} {
		occupied := name == multus.Bridge(d.vni) && len(d.is.guests(d.vni)) > 0
		if d.is0.Link(name) != nil && d.want0.Link(name) == nil && !occupied {
			d.add("", DelLink{name})
			d.gone["/"+name] = true
		}
	}
}

// link makes one of the node's, with its peer in the router's namespace, anew where it is
// not what it has to be for good. A bridge has nothing for good: one that CNI made stays.
func (d *differ) link(want Link, isRouter, wantRouter *Namespace) {
	is := d.is0.Link(want.Name)
	good := is != nil && is.Kind == want.Kind && is.VXLAN == want.VXLAN && is.Peer == want.Peer
	if good {
		d.set("", d.is0, want)
		return
	}
	if is != nil {
		d.add("", DelLink{want.Name})
	}
	made := AddLink{Link: want}
	if namespace, peer, ok := strings.Cut(want.Peer, "/"); ok {
		if stray := isRouter.Link(peer); stray != nil && stray.Peer != "/"+want.Name {
			d.add(namespace, DelLink{peer})
		}
		made.Peer = &Peer{namespace, *wantRouter.Link(peer)}
		d.fresh[namespace+"/"+peer] = true
	}
	d.fresh["/"+want.Name] = true
	d.add("", made)
	d.set("", d.is0, want)
}

// set changes what differs of a link that is there, or was just made.
func (d *differ) set(namespace string, in *Namespace, want Link) {
	is := in.Link(want.Name)
	if d.fresh[namespace+"/"+want.Name] {
		made := asMade(want)
		is = &made
	}
	if is == nil {
		return // its peer was moved away; its node's end is made anew then
	}
	was := *is
	if d.gone[namespace+"/"+was.Master] {
		was.Master, was.Port = "", PortDefault
	}
	if (want.MAC == MAC{}) {
		want.MAC = was.MAC
	}
	if was != want {
		d.add(namespace, SetLink{was, want})
	}
	if was.MAC != want.MAC || was.Up && !want.Up {
		d.flushed[namespace+"/"+want.Name] = true
	}
}

// asMade is a link after AddLink: it is down, and a port like any other, and would give
// itself an address as soon as it is up.
func asMade(want Link) Link {
	want.Up, want.AutoAddress, want.Port = false, true, PortDefault
	return want
}

// remains are the things on links that are the same ones as before.
func remains[T any](d *differ, namespace string, list []T, dev func(T) string) []T {
	return filter(list, func(x T) bool { return !d.fresh[namespace+"/"+dev(x)] && !d.gone[namespace+"/"+dev(x)] })
}

// addresses returns those that stay as they are. One that is deaf is removed, and added as
// it shall be: a route of the table local that was put back without an address of IPv6
// would not go with it.
func (d *differ) addresses(namespace string, is, want []Address) (stay []Address) {
	is = remains(d, namespace, is, func(a Address) string { return a.Dev })
	for _, a := range is {
		if !slices.Contains(want, a) {
			d.add(namespace, DelAddress{a})
			d.flushed[namespace+"/"+a.Dev] = true // with the last address
		}
	}
	for _, a := range want {
		// With the first address of IPv4 in a subnet the kernel removes the others of it.
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
