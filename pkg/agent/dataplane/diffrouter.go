package dataplane

import "slices"

// kernelRules are the rules of a new network namespace: local, main, default.
func kernelRules(ipv6 bool) []Rule {
	rules := []Rule{{IPv6: ipv6, Table: 255}, {IPv6: ipv6, Priority: 32766, Table: 254}}
	if !ipv6 {
		rules = append(rules, Rule{Priority: 32767, Table: 253})
	}
	return rules
}

// connected are the routes that the kernel adds with addresses.
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

// gateway plans the addresses, routes and rules for packets that leave the Network.
func (d *differ) gateway(router string, isRouter, wantRouter *Namespace) {
	node := func(dev string) bool { return dev == wanName(d.vni) || dev == RouterName(d.vni) }
	for _, ns := range []struct {
		name     string
		is, want *Namespace
	}{{"", d.is0.on(node), d.want0.on(node)}, {router, isRouter, wantRouter}} {
		stay := d.addresses(ns.name, ns.is.Addresses, ns.want.Addresses)
		d.routes(ns.name, ns.is, ns.want, stay)
	}
	d.rules(router, isRouter, wantRouter)
}

// on returns the addresses and routes of the matching devices, and all links.
func (n *Namespace) on(such func(dev string) bool) *Namespace {
	return &Namespace{
		Links:     n.Links,
		Addresses: filter(n.Addresses, func(a Address) bool { return such(a.Dev) }),
		Routes:    filter(n.Routes, func(r Route) bool { return such(r.Dev) }),
	}
}

// strays removes unwanted links from a router's namespace, with everything on them. If the
// other end of a stray is on the node, it is removed with that end, which is unwanted too.
// Hardware and links that the kernel makes by itself cannot be removed: they are set down.
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

// routes plans the routes of a router, or of its link on the node. The kernel makes and
// removes those that belong to an address or to a link that comes up. If only such a route
// is gone, it is put back, and the address stays untouched.
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

// rules of a router: adds the missing default rules of the Network's family, and removes
// every other rule.
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
