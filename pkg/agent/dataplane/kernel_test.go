package dataplane

import (
	"slices"
	"strings"
	"testing"
)

func clone(h Host) Host {
	out := Host{}
	for _, n := range h {
		n.Links, n.Addresses, n.Routes, n.Rules = slices.Clone(n.Links), slices.Clone(n.Addresses), slices.Clone(n.Routes), slices.Clone(n.Rules)
		n.Sysctls, n.Tables = slices.Clone(n.Sysctls), slices.Clone(n.Tables)
		for i := range n.Tables {
			n.Tables[i].Sets = slices.Clone(n.Tables[i].Sets)
			for j := range n.Tables[i].Sets {
				n.Tables[i].Sets[j].Elements = slices.Clone(n.Tables[i].Sets[j].Elements)
			}
		}
		out = append(out, n)
	}
	return out
}

// play is a kernel that executes a plan. Like a real kernel it refuses steps on links or in
// namespaces that do not exist.
func play(t testing.TB, h Host, p Plan) Host {
	t.Helper()
	h = clone(h)
	if h.Namespace("") == nil {
		h = append(Host{{}}, h...)
	}
	k := &kernel{t, h}
	for _, step := range p {
		if step.String() == "" {
			t.Fatalf("a step that does nothing: %#v", step)
		}
		k.do(step)
	}
	return k.h
}

type kernel struct {
	t testing.TB
	h Host
}

func (k *kernel) do(step Step) {
	k.t.Helper()
	ns := k.h.Namespace(step.Namespace)
	if ns == nil {
		k.t.Fatalf("no namespace: %s", step)
	}
	on := func(dev string) {
		k.t.Helper()
		if ns.Link(dev) == nil {
			k.t.Fatalf("no device: %s", step)
		}
	}
	switch a := step.Action.(type) {
	case AddNamespace:
		if k.h.Namespace(a.Name) != nil {
			k.t.Fatalf("exists: %s", step)
		}
		k.h = append(k.h, Namespace{Name: a.Name, Rules: append(kernelRules(false), kernelRules(true)...)})
	case DelNamespace:
		for _, l := range slices.Clone(k.h.Namespace(a.Name).Links) {
			k.unlink(a.Name, l.Name)
		}
		k.h = slices.DeleteFunc(k.h, func(n Namespace) bool { return n.Name == a.Name })
	case AddVeth:
		k.link(step, a)
	case SetLink:
		k.set(step, ns, a)
	case DelLink:
		on(a.Name)
		k.unlink(step.Namespace, a.Name)
	case AddAddress:
		on(a.Dev)
		ns.addAddress(a.Address)
	case DelAddress:
		ns.delAddress(a.Address)
	case AddRoute:
		on(a.Dev)
		if a.Via.IsValid() && !slices.ContainsFunc(ns.Routes, func(x Route) bool { return x.Dev == a.Dev && !x.Via.IsValid() && x.Dst.Contains(a.Via) }) || slices.Contains(ns.Routes, a.Route) {
			k.t.Fatalf("unreachable, or exists: %s", step)
		}
		ns.Routes = append(ns.Routes, a.Route)
	case DelRoute:
		ns.Routes = slices.DeleteFunc(ns.Routes, func(x Route) bool { return x == a.Route })
	case AddRule:
		if slices.Contains(ns.Rules, a.Rule) {
			k.t.Fatalf("exists: %s", step)
		}
		ns.Rules = append(ns.Rules, a.Rule)
	case DelRule:
		ns.Rules = slices.DeleteFunc(ns.Rules, func(x Rule) bool { return x == a.Rule })
	case SetSysctl:
		ns.Sysctls = append(slices.DeleteFunc(ns.Sysctls, func(x Sysctl) bool { return x.Name == a.Name }), a.Sysctl)
	case ReplaceTable:
		ns.Tables = append(slices.DeleteFunc(ns.Tables, func(x Table) bool { return x.id() == a.Table.id() }), clone(Host{{Tables: []Table{a.Table}}})[0].Tables[0])
	case DelTable:
		ns.Tables = slices.DeleteFunc(ns.Tables, func(x Table) bool { return x.Family == a.Family && x.Name == a.Name })
	case ChangeElements:
		k.elements(ns, a)
	default:
		k.t.Fatalf("no such action: %T", a)
	}
}

func (k *kernel) link(step Step, a AddVeth) {
	k.t.Helper()
	host, router := k.h.Namespace(""), k.h.Namespace(a.Namespace)
	if router == nil || host.Link(a.Link.Name) != nil || router.Link(a.Peer.Name) != nil {
		k.t.Fatalf("no namespace, or an end exists: %s", step)
	}
	for _, end := range []struct {
		ns *Namespace
		l  Link
	}{{host, asMade(a.Link)}, {router, asMade(a.Peer)}} {
		if (end.l.MAC == MAC{}) {
			end.l.MAC = MAC{0x02, 0xff}
		}
		end.ns.Links = append(end.ns.Links, end.l)
	}
}

func (k *kernel) set(step Step, ns *Namespace, a SetLink) {
	k.t.Helper()
	is := ns.Link(a.Want.Name)
	if is != nil && (a.Is.MAC == MAC{}) { // just made, with an address that the kernel chose
		a.Is.MAC = is.MAC
		if (a.Want.MAC == MAC{}) {
			a.Want.MAC = is.MAC
		}
	}
	if is == nil || *is != a.Is {
		k.t.Fatalf("the observed link differs: %s\n%+v\n%+v", step, is, a.Is)
	}
	if a.Want.Master != "" && a.Want.Master != is.Master {
		k.t.Fatalf("puts it on a bridge: %s", step)
	}
	cameUp := !is.Up && a.Want.Up
	if *is = a.Want; cameUp {
		for _, address := range ns.Addresses {
			ns.connect(is.Name, address)
		}
	}
}

// same says whether the kernel treats both as one address.
func (a Address) same(b Address) bool { return a.Dev == b.Dev && a.Prefix == b.Prefix }

// addAddress adds an address and its route; an address that exists stays unchanged.
func (n *Namespace) addAddress(a Address) {
	if !slices.ContainsFunc(n.Addresses, a.same) {
		n.Addresses = append(n.Addresses, a)
		n.connect(a.Dev, a)
	}
}

// connect adds the route of an address on that link if the link is up. On the node, only
// routes of the agent's links are read.
func (n *Namespace) connect(dev string, a Address) {
	if (n.Name != "" || OwnLink(dev) != 0) && a.Dev == dev && n.Link(dev).Up && !slices.ContainsFunc(n.Routes, func(r Route) bool { return r.Dev == dev && r.Dst == a.Prefix.Masked() }) {
		n.Routes = append(n.Routes, a.route())
	}
}

// delAddress removes an address and its route. With the first IPv4 address of a subnet it
// removes the subnet's others. With the last IPv4 address it removes all IPv4 routes.
func (n *Namespace) delAddress(a Address) {
	same := func(x Address) bool {
		return x.Dev == a.Dev && x.Prefix.Masked() == a.Prefix.Masked() && x.Prefix.Addr().Is4()
	}
	if first := slices.IndexFunc(n.Addresses, same); first >= 0 && n.Addresses[first].same(a) {
		n.Addresses = slices.DeleteFunc(n.Addresses, same)
	}
	n.Addresses = slices.DeleteFunc(n.Addresses, a.same)
	if !slices.ContainsFunc(n.Addresses, func(x Address) bool { return x.route() == a.route() }) {
		n.Routes = slices.DeleteFunc(n.Routes, func(r Route) bool { return r == a.route() })
	}
	is4 := func(x Address) bool { return x.Dev == a.Dev && x.Prefix.Addr().Is4() }
	if is4(a) && !slices.ContainsFunc(n.Addresses, is4) {
		n.Routes = slices.DeleteFunc(n.Routes, func(r Route) bool { return r.Dev == a.Dev && r.Dst.Addr().Is4() })
	}
}

func (k *kernel) unlink(namespace, name string) {
	ns := k.h.Namespace(namespace)
	if ns == nil || ns.Link(name) == nil {
		return
	}
	peer := ns.Link(name).Peer
	ns.Links = slices.DeleteFunc(ns.Links, func(l Link) bool { return l.Name == name })
	ns.Addresses = slices.DeleteFunc(ns.Addresses, func(x Address) bool { return x.Dev == name })
	ns.Routes = slices.DeleteFunc(ns.Routes, func(x Route) bool { return x.Dev == name })
	for i := range ns.Links {
		if ns.Links[i].Master == name {
			ns.Links[i].Master = ""
		}
	}
	if namespace, other, ok := strings.Cut(peer, "/"); ok {
		k.unlink(namespace, other)
	}
}

func (k *kernel) elements(ns *Namespace, a ChangeElements) {
	k.t.Helper()
	table := ns.table(a.Family + " " + a.Table)
	for _, c := range a.Changes {
		i := slices.IndexFunc(table.Sets, func(s Set) bool { return s.Name == c.Set })
		for _, e := range c.Del {
			if !slices.Contains(table.Sets[i].Elements, e) {
				k.t.Fatalf("no element %s in %s", e, c.Set)
			}
		}
		kept := slices.DeleteFunc(table.Sets[i].Elements, func(e string) bool { return slices.Contains(c.Del, e) })
		table.Sets[i].Elements = newSet("", "", append(kept, c.Add...)).Elements
	}
}
