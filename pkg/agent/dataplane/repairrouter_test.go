package dataplane

import (
	"net/netip"
	"slices"
	"testing"
)

// Unwanted things in a router's namespace are removed.
func TestRepairRouter(t *testing.T) {
	route := func(dst, via, dev, more string) Route {
		r := Route{Dst: netip.MustParsePrefix(dst), Dev: dev, More: more}
		if via != "" {
			r.Via = netip.MustParseAddr(via)
		}
		return r
	}
	stray := Link{Name: "stray0", Kind: "dummy", MTU: 1500, Up: true}
	repaired(t, blue, []harm{
		{"a link, and everything on it", func(_, router *Namespace) {
			router.Links = append(router.Links, stray)
			router.addAddress(Address{Dev: "stray0", Prefix: netip.MustParsePrefix("10.5.0.1/24")})
			router.Routes = append(router.Routes, route("10.6.0.0/16", "10.5.0.2", "stray0", ""))
		}, `
		ip -n pod2-1001 link del stray0`},
		{"a bridge that has one of the agent's links", func(_, router *Namespace) {
			router.Links = append(router.Links, stray)
			router.Link("stray0").Kind, router.Link("lan").Master = "bridge", "stray0"
		}, `
		ip -n pod2-1001 link del stray0`},
		{"hardware, up", func(_, router *Namespace) {
			router.Links = append(router.Links, stray)
			router.Link("stray0").Kind = KindHardware
		}, `
		ip -n pod2-1001 link set stray0 down`},
		{"a tunnel of the kernel's own, down", func(_, router *Namespace) {
			router.Links = append(router.Links, Link{Name: "tunl0", Kind: "ipip", MTU: 1480})
		}, ""},
		{"lan with another name, which is removed with its other end", func(host, router *Namespace) {
			router.Link("lan").Name, host.Link("rt1001").Peer = "nal", "pod2-1001/nal"
			router.Addresses = slices.DeleteFunc(router.Addresses, func(a Address) bool { return a.Dev == "lan" })
			router.Routes = slices.DeleteFunc(router.Routes, func(r Route) bool { return r.Dev == "lan" })
			router.addAddress(Address{Dev: "nal", Prefix: netip.MustParsePrefix("192.168.0.1/16")})
		}, `
		ip link del rt1001
		ip link add rt1001 mtu 1450 type veth peer name lan mtu 1450 address 02:00:5e:00:03:e9 netns pod2-1001
		ip link set rt1001 addrgenmode none up
		ip -n pod2-1001 link set lan addrgenmode none up
		ip -n pod2-1001 addr add 192.168.0.1/16 dev lan`},
		{"an address, its route with it", func(_, router *Namespace) {
			router.addAddress(Address{Dev: "lan", Prefix: netip.MustParsePrefix("10.5.0.1/24")})
		}, `
		ip -n pod2-1001 addr del 10.5.0.1/24 dev lan`},
		{"an address of the same subnet that was there before", func(_, router *Namespace) {
			router.delAddress(Address{Dev: "lan", Prefix: netip.MustParsePrefix("192.168.0.1/16")})
			router.addAddress(Address{Dev: "lan", Prefix: netip.MustParsePrefix("192.168.0.7/16")})
			router.addAddress(Address{Dev: "lan", Prefix: netip.MustParsePrefix("192.168.0.1/16")})
		}, `
		ip -n pod2-1001 addr del 192.168.0.7/16 dev lan
		ip -n pod2-1001 addr add 192.168.0.1/16 dev lan`},
		{"an address of the same subnet that came later, and the route of both gone", func(_, router *Namespace) {
			router.addAddress(Address{Dev: "lan", Prefix: netip.MustParsePrefix("192.168.0.7/16")})
			router.Routes = slices.DeleteFunc(router.Routes, func(r Route) bool { return r.Dev == "lan" })
		}, `
		ip -n pod2-1001 addr del 192.168.0.7/16 dev lan
		ip -n pod2-1001 route add 192.168.0.0/16 dev lan src 192.168.0.1`},
		{"an address on lo", func(_, router *Namespace) {
			router.Addresses = append(router.Addresses, Address{Dev: "lo", Prefix: netip.MustParsePrefix("192.168.0.9/32")})
		}, `
		ip -n pod2-1001 addr del 192.168.0.9/32 dev lo`},
		{"routes", func(_, router *Namespace) {
			router.Routes = append(router.Routes, route("10.6.0.0/16", "192.168.0.2", "lan", ""), route("10.7.0.0/16", "", "", "type blackhole"),
				route("fd00::/8", "fd00:10::2", "lan", ""), route("0.0.0.0/0", "100.64.0.0", "wan", "metric 5"), route("192.168.0.0/17", "", "lan", ""))
		}, `
		ip -n pod2-1001 route del 10.6.0.0/16 via 192.168.0.2 dev lan
		ip -n pod2-1001 route del 10.7.0.0/16 type blackhole
		ip -n pod2-1001 -6 route del fd00::/8 via fd00:10::2 dev lan
		ip -n pod2-1001 route del default via 100.64.0.0 dev wan metric 5
		ip -n pod2-1001 route del 192.168.0.0/17 dev lan`},
		{"all routes gone, those that the kernel made, too", func(_, router *Namespace) { router.Routes = nil }, `
		ip -n pod2-1001 route add 192.168.0.0/16 dev lan src 192.168.0.1
		ip -n pod2-1001 route add 100.64.0.0/31 dev wan src 100.64.0.1
		ip -n pod2-1001 route add default via 100.64.0.0 dev wan`},
		{"wan down, its routes with it", func(_, router *Namespace) {
			router.Link("wan").Up = false
			router.Routes = slices.DeleteFunc(router.Routes, func(r Route) bool { return r.Dev == "wan" })
		}, `
		ip -n pod2-1001 link set wan up
		ip -n pod2-1001 route add default via 100.64.0.0 dev wan`},
		{"rules of either family", func(_, router *Namespace) {
			router.Rules = append(router.Rules, Rule{Priority: 100, Table: 100, More: "from 10.0.0.0/8 iif lan"}, Rule{IPv6: true, Priority: 100, Table: 100})
		}, `
		ip -n pod2-1001 rule del pref 100 from 10.0.0.0/8 iif lan lookup 100
		ip -n pod2-1001 -6 rule del pref 100 from all lookup 100`},
		{"all rules gone", func(_, router *Namespace) { router.Rules = nil }, `
		ip -n pod2-1001 rule add pref 0 from all lookup 255
		ip -n pod2-1001 rule add pref 32766 from all lookup 254
		ip -n pod2-1001 rule add pref 32767 from all lookup 253`},
	})
	repaired(t, blue6, []harm{
		{"IPv6: all routes and rules gone", func(_, router *Namespace) { router.Routes, router.Rules = nil, nil }, `
		ip -n pod2-1001 -6 route add fd00:10::/64 dev lan
		ip -n pod2-1001 -6 route add fe80::/64 dev lan
		ip -n pod2-1001 -6 route add fd64:706f:6432::7d2/127 dev wan
		ip -n pod2-1001 -6 route add fe80::/64 dev wan
		ip -n pod2-1001 -6 route add default via fd64:706f:6432::7d2 dev wan
		ip -n pod2-1001 -6 rule add pref 0 from all lookup 255
		ip -n pod2-1001 -6 rule add pref 32766 from all lookup 254`},
		{"IPv6: an address, its route with it", func(_, router *Namespace) {
			router.addAddress(Address{Dev: "lan", Prefix: netip.MustParsePrefix("fd00:99::1/64")})
		}, `
		ip -n pod2-1001 addr del fd00:99::1/64 dev lan nodad`},
	})
}

var blue6 = []string{"node n1 10.0.0.1", "node n2 10.0.0.2", "network v6 1001 fd00:10::/64"}

// Each address has the routes that the kernel makes with it. A missing route of the table
// main is put back. For a missing route of the table local, the address is removed and added.
func TestRepairAddresses(t *testing.T) {
	deaf := func(ns *Namespace, devs ...string) {
		for i := range ns.Addresses {
			if slices.Contains(devs, ns.Addresses[i].Dev) {
				ns.Addresses[i].Deaf = true
			}
		}
	}
	harms := func(route, all, onWan, node string) []harm {
		return []harm{
			{"the route to the Network", func(_, router *Namespace) {
				router.Routes = slices.DeleteFunc(router.Routes, func(r Route) bool { return r.Dev == "lan" })
			}, route},
			{"all of the table local", func(_, router *Namespace) { deaf(router, "lan", "wan") }, all},
			{"wan is deaf, and the routes by it are gone", func(_, router *Namespace) {
				deaf(router, "wan")
				router.Routes = slices.DeleteFunc(router.Routes, func(r Route) bool { return r.Dev == "wan" })
			}, onWan},
			{"the node's route to the router", func(host, _ *Namespace) { host.Routes = nil }, node},
		}
	}
	repaired(t, blue, append(harms(`
		ip -n pod2-1001 route add 192.168.0.0/16 dev lan src 192.168.0.1`, `
		ip -n pod2-1001 addr del 192.168.0.1/16 dev lan
		ip -n pod2-1001 addr del 100.64.0.1/31 dev wan
		ip -n pod2-1001 addr add 192.168.0.1/16 dev lan
		ip -n pod2-1001 addr add 100.64.0.1/31 dev wan
		ip -n pod2-1001 route add default via 100.64.0.0 dev wan`, `
		ip -n pod2-1001 addr del 100.64.0.1/31 dev wan
		ip -n pod2-1001 addr add 100.64.0.1/31 dev wan
		ip -n pod2-1001 route add default via 100.64.0.0 dev wan`, `
		ip route add 100.64.0.0/31 dev wn1001 src 100.64.0.0`), []harm{
		{"IPv4: with the last address the kernel removes routes that others made, too", func(_, router *Namespace) {
			deaf(router, "wan")
			router.Routes = append(router.Routes, Route{Dst: netip.MustParsePrefix("10.6.0.0/16"), Via: netip.MustParseAddr("100.64.0.0"), Dev: "wan"})
		}, `
		ip -n pod2-1001 addr del 100.64.0.1/31 dev wan
		ip -n pod2-1001 addr add 100.64.0.1/31 dev wan
		ip -n pod2-1001 route del 10.6.0.0/16 via 100.64.0.0 dev wan
		ip -n pod2-1001 route add default via 100.64.0.0 dev wan`},
		{"the node is deaf to the router, which keeps its pair of addresses", func(host, _ *Namespace) {
			deaf(host, "wn1001")
		}, `
		ip addr del 100.64.0.0/31 dev wn1001
		ip addr add 100.64.0.0/31 dev wn1001`},
		{"a route for the node's link to the router that came with another address", func(host, _ *Namespace) {
			host.Routes = append(host.Routes, Route{Dst: netip.MustParsePrefix("10.5.0.0/24"), Src: netip.MustParseAddr("10.5.0.1"), Dev: "wn1001"})
		}, `
		ip route del 10.5.0.0/24 dev wn1001 src 10.5.0.1`},
		{"an address that is not wanted, and deaf", func(_, router *Namespace) {
			router.Addresses = append(router.Addresses, Address{Dev: "lan", Prefix: netip.MustParsePrefix("10.5.0.1/24"), Deaf: true})
		}, `
		ip -n pod2-1001 addr del 10.5.0.1/24 dev lan`},
	}...))
	repaired(t, blue6, harms(`
		ip -n pod2-1001 -6 route add fd00:10::/64 dev lan
		ip -n pod2-1001 -6 route add fe80::/64 dev lan`, `
		ip -n pod2-1001 addr del fd00:10::1/64 dev lan nodad
		ip -n pod2-1001 addr del fe80::5eff:fe00:3e9/64 dev lan nodad
		ip -n pod2-1001 addr del fd64:706f:6432::7d3/127 dev wan nodad
		ip -n pod2-1001 addr del fe80::2/64 dev wan nodad
		ip -n pod2-1001 addr add fd00:10::1/64 dev lan nodad
		ip -n pod2-1001 addr add fe80::5eff:fe00:3e9/64 dev lan nodad
		ip -n pod2-1001 addr add fd64:706f:6432::7d3/127 dev wan nodad
		ip -n pod2-1001 addr add fe80::2/64 dev wan nodad`, `
		ip -n pod2-1001 addr del fd64:706f:6432::7d3/127 dev wan nodad
		ip -n pod2-1001 addr del fe80::2/64 dev wan nodad
		ip -n pod2-1001 addr add fd64:706f:6432::7d3/127 dev wan nodad
		ip -n pod2-1001 addr add fe80::2/64 dev wan nodad
		ip -n pod2-1001 -6 route add default via fd64:706f:6432::7d2 dev wan`, `
		ip -6 route add fd64:706f:6432::7d2/127 dev wn1001
		ip -6 route add fe80::/64 dev wn1001`))
}
