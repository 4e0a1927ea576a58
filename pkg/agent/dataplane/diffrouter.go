package dataplane

import "slices"

// kernelRules are those that a network namespace has from the start: local, main, default.
func kernelRules(ipv6 bool) []Rule {
	rules := []Rule{{IPv6: ipv6, Table: 255}, {IPv6: ipv6, Priority: 32766, Table: 254}}
	if !ipv6 {
		rules = append(rules, Rule{Priority: 32767, Table: 253})
	}
	return rules
}

// connected are the routes that come with addresses.
func connected(addresses []Address) []Route {
	var routes []Route
	for _, a := range addresses {
		routes = append(routes, a.route())
	}
	return routes
}

func (a Address) route() Route {
	r := Route{Dst: a.Prefix.Masked(), Dev: a.Dev}
	if a.Prefix.Addr().Is4() {
		r.Src = a.Prefix.Addr()
	}
	return r
}

// gateway is what packets need that leave the Network, all but the links: it comes after
// what those need that stay, since they are not to wait for what a kernel refuses of this.
func (d *differ) gateway(router string, isRouter, wantRouter *Namespace) {
	node := func(dev string) bool { return dev == wanName(d.vni) }
	for _, ns := range []struct {
		name     string
		is, want *Namespace
	}{{"", d.is0.on(node), d.want0.on(node)}, {router, isRouter, wantRouter}} {
		stay := d.addresses(ns.name, ns.is.Addresses, ns.want.Addresses)
		d.routes(ns.name, ns.is, ns.want, stay)
	}
	d.rules(router, isRouter, wantRouter)
}

// on such devices are these addresses and routes; of links there are all.
func (n *Namespace) on(such func(dev string) bool) *Namespace {
	return &Namespace{
		Links:     n.Links,
		Addresses: filter(n.Addresses, func(a Address) bool { return such(a.Dev) }),
		Routes:    filter(n.Routes, func(r Route) bool { return such(r.Dev) }),
	}
}

// strays are links in a router's namespace that are not wanted: they go, and what is on
// them with them. One whose other end is on the node goes with that, which is not as it
// shall be either. Hardware, and what the kernel makes by itself, cannot be removed, and is
// to be down.
func (d *differ) strays(namespace string, is, want *Namespace) {
	for _, l := range is.Links {
		if want.Link(l.Name) != nil {
			continue
		}
		if l.Kind == KindHardware || slices.Contains(fallbacks, l.Name) {
			if down := l; l.Up {
				down.Up = false
				d.add(namespace, SetLink{l, down})
			}
			continue
		}
		if l.Peer == "" {
			d.add(namespace, DelLink{l.Name})
		}
		d.gone[namespace+"/"+l.Name] = true
	}
}

// routes of a router, or of its link on the node. What comes and goes with an address,
// or when its link comes up, is the kernel's to make and to remove; it is put back where it
// is gone by itself, and the address stays as it is.
func (d *differ) routes(namespace string, is, want *Namespace, stay []Address) {
	routes := remains(d, namespace, is.Routes, func(r Route) string { return r.Dev })
	with := func(addresses []Address, r Route) bool {
		return slices.ContainsFunc(addresses, func(a Address) bool { return a.route() == r })
	}
	for _, r := range routes {
		if !slices.Contains(want.Routes, r) && !with(is.Addresses, r) {
			d.add(namespace, DelRoute{r})
		}
	}
	for _, r := range want.Routes {
		comes := !r.Via.IsValid() && (!with(stay, r) || !is.Link(r.Dev).Up)
		flushed := r.Dst.Addr().Is4() && d.bare[namespace+"/"+r.Dev]
		if (!slices.Contains(routes, r) || flushed) && !comes {
			d.add(namespace, AddRoute{r})
		}
	}
}

// rules of a router: those more than a namespace has from the start go, and those of the
// Network's family are there.
func (d *differ) rules(namespace string, is, want *Namespace) {
	for _, r := range is.Rules {
		if !slices.Contains(kernelRules(r.IPv6), r) {
			d.add(namespace, DelRule{r})
		}
	}
	for _, r := range want.Rules {
		if !slices.Contains(is.Rules, r) {
			d.add(namespace, AddRule{r})
		}
	}
}
