//go:build linux

package kernel

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// addRoute adds a route. Without a gateway it is like the kernel's own, so it is removed with
// its address. Such a route comes before others to that destination: each link has one to
// fe80::/64, and another program may have replaced it by one that leads elsewhere.
func addRoute(r dataplane.Route) error {
	index, err := indexOf(r.Dev)
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: index, Dst: ipNet(r.Dst), Gw: r.Via.AsSlice(), Src: r.Src.AsSlice(), Protocol: unix.RTPROT_STATIC}
	if !r.Via.IsValid() {
		route.Protocol, route.Scope = unix.RTPROT_KERNEL, netlink.SCOPE_LINK
		if r.Dst.Addr().Is6() {
			route.Priority = kernelMetric6
		}
		return netlink.RouteAddEcmp(route) // the same as `ip route prepend`
	}
	return netlink.RouteAdd(route)
}

// appendRoute to hosts on the link.
func appendRoute(r dataplane.Route) error {
	index, err := indexOf(r.Dev)
	if err != nil {
		return err
	}
	return netlink.RouteAppend(&netlink.Route{LinkIndex: index, Dst: ipNet(r.Dst), Src: r.Src.AsSlice(), Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_LINK})
}

// delRoute finds the route with exactly this text and sends the kernel's own message back.
// More is a text for people: it is not enough to make such a route.
func delRoute(want dataplane.Route) error {
	r := newRoom("router")
	if err := r.readLinks(); err != nil {
		return fmt.Errorf("links: %w", err)
	}
	var found []byte
	if err := r.eachRoute(func(is dataplane.Route, message []byte) {
		if is == want {
			found = slices.Clone(message)
		}
	}); err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	if found == nil {
		return unix.ESRCH
	}
	// The flags are the route's state, and a nexthop object already holds the gateway and
	// the device.
	clear(found[8:unix.SizeofRtMsg])
	leave := []int{unix.RTA_CACHEINFO}
	const nexthop = 30 // RTA_NH_ID
	if attribute(found[unix.SizeofRtMsg:], nexthop) != nil {
		leave = append(leave, unix.RTA_OIF, unix.RTA_GATEWAY, unix.RTA_MULTIPATH, unix.RTA_VIA, unix.RTA_ENCAP, unix.RTA_ENCAP_TYPE)
	}
	return sendBack(unix.RTM_DELROUTE, found, leave...)
}

func addRule(r dataplane.Rule) error {
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Table, rule.Protocol = unix.AF_INET, int(r.Priority), int(r.Table), unix.RTPROT_KERNEL
	if r.IPv6 {
		rule.Family = unix.AF_INET6
	}
	return netlink.RuleAdd(rule)
}

// delRule works like delRoute. The kernel leaves the priority out of a rule with priority 0,
// and takes a missing priority for any. So among rules that are otherwise alike, it removes
// the one with the lowest priority.
func delRule(want dataplane.Rule) error {
	var found []byte
	if err := eachRule(func(is dataplane.Rule, message []byte) {
		if is == want {
			found = slices.Clone(message)
		}
	}); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	if found == nil {
		return unix.ESRCH
	}
	return sendBack(unix.RTM_DELRULE, found)
}

// sendBack a message without attributes of those kinds.
func sendBack(kind int, message []byte, without ...int) error {
	request := nl.NewNetlinkRequest(kind, unix.NLM_F_ACK)
	request.AddRawData(message[:unix.SizeofRtMsg])
	for kind, value := range attributes(message[unix.SizeofRtMsg:]) {
		if !slices.Contains(without, kind) {
			request.AddRawData(nl.NewRtAttr(kind, value).Serialize())
		}
	}
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
