//go:build linux && kernel

package kernel

import (
	"errors"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// routers: unwanted things in a router's namespace, and missing ones.
func (r *repairs) routers() []harm {
	gateway, other := netip.PrefixFrom(r.blue.network.Gateway, r.cidr.Bits()), netip.PrefixFrom(r.pod(77), r.cidr.Bits())
	add := func(dev string, prefixes ...netip.Prefix) error {
		var errs []error
		for _, p := range prefixes {
			errs = append(errs, netlink.AddrAdd(r.link(dev), address(p)))
		}
		return errors.Join(errs...)
	}
	wanUp := "ip ROUTER link set wan up"
	if r.cidr.Addr().Is6() { // IPv6 addresses are removed when a link is set down
		wanUp += "\nip ROUTER addr add GATEWAY dev lanNODAD\nip ROUTER addr add FAR/127 dev wan nodad\nip ROUTER addr add fe80::2/64 dev wan nodad"
	} else {
		wanUp += "\nip ROUTER addr add GATEWAY dev lan"
	}
	list := []harm{
		{"router gone", "node1", func() error { return r.kernel.delNamespace("pod2-1001") }, ""},
		{"router's addresses and route gone", "router", func() error {
			return errors.Join(netlink.LinkSetDown(r.link("wan")), netlink.AddrDel(r.link("lan"), address(gateway)))
		}, wanUp + "\nip ROUTER SIX route add default via NEAR dev wan"},
		{"the node's address gone", "node1", func() error {
			return netlink.AddrDel(r.link("wn1001"), address(netip.PrefixFrom(r.near, r.of(31, 127))))
		}, "ip addr add NEAR/BITS dev wn1001NODAD"},
		{"an address more", "router", func() error {
			return add("lan", netip.MustParsePrefix("10.5.0.1/24"), netip.MustParsePrefix("fd00:99::1/64"))
		}, `
			ip ROUTER addr del 10.5.0.1/24 dev lan
			ip ROUTER addr del fd00:99::1/64 dev lan nodad`},
		{"an address of the gateway's subnet that came later, and the route of both gone", "router", func() error {
			return errors.Join(add("lan", other), r.delRoutes([]int{unix.RT_TABLE_MAIN}, "lan", r.cidr))
		}, `
			ip ROUTER addr del OTHER dev lanNODAD
			ip ROUTER SIX route add CIDR dev lanFROM-GATEWAY`},
		{"an address more on lo, which is up", "router", func() error {
			return errors.Join(netlink.LinkSetUp(r.link("lo")), add("lo", single(r.pod(77))))
		}, "ip ROUTER addr del " + single(r.pod(77)).String() + " dev loNODAD"},
		{"an interface more, with an address, a route and the lower end of lan", "router", func() error {
			err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "stray0"}})
			return errors.Join(err, netlink.LinkSetUp(r.link("stray0")), add("stray0", netip.MustParsePrefix("10.5.0.1/24"), netip.MustParsePrefix("fd00:99::1/64")),
				netlink.RouteAdd(&netlink.Route{Dst: ipNet(netip.MustParsePrefix("10.6.0.0/16")), Gw: net.IP{10, 5, 0, 2}}),
				netlink.LinkSetMasterByIndex(r.link("lan"), r.index("stray0")))
		}, "ip ROUTER link del stray0"},
		{"lan has another name", "router", func() error {
			return errors.Join(netlink.LinkSetDown(r.link("lan")), netlink.LinkSetName(r.link("lan"), "nal"), netlink.LinkSetUp(r.link("nal")))
		}, ""},
	}
	if r.cidr.Addr().Is4() {
		list = append(list, harm{"an address of the gateway's subnet that was there first", "router", func() error {
			return errors.Join(netlink.AddrDel(r.link("lan"), address(gateway)), add("lan", other, gateway))
		}, `
			ip ROUTER addr del OTHER dev lan
			ip ROUTER addr add GATEWAY dev lan`})
	}
	return list
}

// routes that are not wanted, of every kind that an administrator knows.
func (r *repairs) routes() []harm {
	elsewhere, half := netip.MustParsePrefix("10.6.0.0/16"), netip.MustParsePrefix("192.168.0.0/17")
	if r.cidr.Addr().Is6() {
		elsewhere, half = netip.MustParsePrefix("fd00:99::/32"), netip.MustParsePrefix("fd00:10::/65")
	}
	everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if r.cidr.Addr().Is6() {
		everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	pod, near := net.IP(r.blue.ip.AsSlice()), net.IP(r.near.AsSlice())
	add := func(route netlink.Route) func() error {
		return func() error {
			if route.Gw != nil {
				dev := "wan"
				if route.Gw.Equal(pod) {
					dev = "lan"
				}
				route.LinkIndex = r.index(dev)
			}
			return netlink.RouteAdd(&route)
		}
	}
	const here = `
			ip ROUTER SIX route del `
	return []harm{
		{"a route to a pod", "router", add(netlink.Route{Dst: ipNet(elsewhere), Gw: pod}), here + elsewhere.String() + " via " + r.blue.ip.String() + " dev lan"},
		{"a default route that is asked later", "router", add(netlink.Route{Dst: ipNet(everywhere), Gw: pod, Priority: 2000}), here + "default via " + r.blue.ip.String() + " dev lan metric 2000"},
		{"a route of a table of its own", "router", add(netlink.Route{Dst: ipNet(elsewhere), Gw: near, Table: 100}), here + elsewhere.String() + " via NEAR dev wan table 100"},
		{"a route of the table local", "router", add(netlink.Route{Dst: ipNet(elsewhere), Gw: near, Table: unix.RT_TABLE_LOCAL}), here + elsewhere.String() + " via NEAR dev wan table 255"},
		{"a route with an MTU", "router", add(netlink.Route{Dst: ipNet(elsewhere), Gw: near, MTU: 1300}), ""},
		{"half of the Network's addresses elsewhere", "router", add(netlink.Route{Dst: ipNet(half), Gw: near}), here + half.String() + " via NEAR dev wan"},
		{"a black hole", "router", add(netlink.Route{Dst: ipNet(elsewhere), Type: unix.RTN_BLACKHOLE}), ""},
		{"a route with two ways", "router", func() error {
			return netlink.RouteAdd(&netlink.Route{Dst: ipNet(elsewhere), MultiPath: []*netlink.NexthopInfo{{LinkIndex: r.index("wan"), Gw: near}, {LinkIndex: r.index("lan"), Gw: pod}}})
		}, ""},
		{"a route by a nexthop object", "router", func() error {
			err := nexthop(9, nl.NewRtAttr(nhaOIF, nl.Uint32Attr(uint32(r.index("wan")))), nl.NewRtAttr(nhaGateway, r.near.AsSlice()))
			request := nl.NewNetlinkRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
			message := nl.NewRtMsg()
			message.Family, message.Dst_len = uint8(r.of(unix.AF_INET, unix.AF_INET6)), uint8(elsewhere.Bits())
			request.AddData(message)
			request.AddData(nl.NewRtAttr(unix.RTA_DST, elsewhere.Addr().AsSlice()))
			const nhID = 30 // RTA_NH_ID
			request.AddData(nl.NewRtAttr(nhID, nl.Uint32Attr(9)))
			_, errRoute := request.Execute(unix.NETLINK_ROUTE, 0)
			return errors.Join(err, errRoute)
		}, ""},
		{"a route of the node's, as the kernel makes them", "node1", func() error {
			return netlink.RouteAdd(&netlink.Route{Dst: ipNet(elsewhere), LinkIndex: r.index("wn1001"), Protocol: unix.RTPROT_KERNEL, Scope: netlink.SCOPE_LINK, Priority: r.of(0, kernelMetric6)})
		}, "ip SIX route del " + elsewhere.String() + " dev wn1001"},
		{"the default route with another gateway", "router", func() error {
			return netlink.RouteReplace(&netlink.Route{Dst: ipNet(everywhere), Gw: pod, LinkIndex: r.index("lan"), Priority: r.of(0, userMetric6)})
		}, here + "default via " + r.blue.ip.String() + ` dev lan
			ip ROUTER SIX route add default via NEAR dev wan`},
	}
}

func (r *repairs) rules() []harm {
	family := r.of(unix.AF_INET, unix.AF_INET6)
	rule := func(priority, table int) *netlink.Rule {
		rule := netlink.NewRule()
		rule.Family, rule.Priority, rule.Table = family, priority, table
		return rule
	}
	defaults := "ip ROUTER SIX rule add pref 32766 from all lookup 254"
	if family == unix.AF_INET {
		defaults += "\nip ROUTER SIX rule add pref 32767 from all lookup 253"
	}
	return []harm{
		{"rules more", "router", func() error {
			narrow := rule(100, 100)
			narrow.Src, narrow.IifName, narrow.Invert = ipNet(r.cidr), "lan", true
			return errors.Join(netlink.RuleAdd(narrow), netlink.RuleAdd(rule(0, 100)))
		}, `
			ip ROUTER SIX rule del pref 0 from all lookup 100
			ip ROUTER SIX rule del pref 100 from CIDR iif lan not lookup 100`},
		{"a rule that drops", "router", func() error {
			drops := rule(5, 0)
			drops.Type = unix.RTN_BLACKHOLE
			return netlink.RuleAdd(drops)
		}, "ip ROUTER SIX rule del pref 5 from all action 6 lookup 0"},
		{"ip rule flush", "router", func() error {
			list, err := netlink.RuleList(family)
			errs := []error{err}
			for _, is := range list {
				if is.Priority > 0 {
					errs = append(errs, netlink.RuleDel(&is))
				}
			}
			return errors.Join(errs...)
		}, defaults},
	}
}

func single(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }
