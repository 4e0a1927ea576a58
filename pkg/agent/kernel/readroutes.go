//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// dump the IPv4 and IPv6 routes or rules in the thread's namespace. Each call gets one
// message, which is valid until the call returns.
func dump(get, kind uint16, each func(message []byte)) error {
	request := nl.NewNetlinkRequest(int(get), unix.NLM_F_DUMP)
	request.AddData(nl.NewRtMsg())
	return request.ExecuteIter(unix.NETLINK_ROUTE, kind, func(m []byte) bool {
		if len(m) >= unix.SizeofRtMsg && (m[0] == unix.AF_INET || m[0] == unix.AF_INET6) { // skips multicast routing
			each(m)
		}
		return true
	})
}

// readRoutes reads the routes, and which addresses are deaf.
func (r *room) readRoutes() error {
	each := r.eachRoute
	if r.ns.Name == "" {
		each = r.eachOfNode
	}
	if err := each(func(route dataplane.Route, _ []byte) { r.ns.Routes = append(r.ns.Routes, route) }); err != nil {
		return err
	}
	for i := range r.ns.Addresses {
		a := &r.ns.Addresses[i]
		ip := a.Prefix.Addr()
		a.Deaf = !r.local[at{a.Dev, ip}] || ip.Is6() && !r.local[at{a.Dev, multicasts}]
	}
	return nil
}

// openSocket opens a socket in the thread's namespace. If the kernel does not answer, the
// socket returns an error instead of blocking forever.
func openSocket() (*nl.NetlinkSocket, error) {
	socket, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open an rtnetlink socket: %w", err)
	}
	if err := socket.SetReceiveTimeout(&nl.SocketTimeoutTv); err != nil {
		socket.Close()
		return nil, fmt.Errorf("set up an rtnetlink socket: %w", err)
	}
	return socket, nil
}

func (r *room) eachRoute(each func(route dataplane.Route, message []byte)) error {
	return dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, func(m []byte) {
		if route, counts := r.route(m); counts {
			each(route, m)
		}
	})
}

// eachOfNode is eachRoute for the routes that the kernel made in the node's namespace for
// the agent's links. Other programs may have made a million routes there.
func (r *room) eachOfNode(each func(route dataplane.Route, message []byte)) error {
	for _, of := range []unix.RtMsg{{Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_KERNEL}, {Table: unix.RT_TABLE_LOCAL}} {
		for _, of.Family = range []uint8{unix.AF_INET, unix.AF_INET6} {
			if err := askRoutes(of, 0, func(m []byte) {
				if r.names[int(number(attribute(m[unix.SizeofRtMsg:], unix.RTA_OIF)))] == "" {
					return
				}
				if route, counts := r.route(m); counts {
					each(route, m)
				}
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// askRoutes of one family and table and, if given, of one protocol and device. The kernel
// sends no others.
func askRoutes(of unix.RtMsg, dev int, each func(message []byte)) error {
	socket, err := openSocket()
	if err != nil {
		return err
	}
	defer socket.Close()
	if err := unix.SetsockoptInt(socket.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		return fmt.Errorf("turn on strict checks of rtnetlink requests: %w", err)
	}
	request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}
	request.AddData(&nl.RtMsg{RtMsg: of})
	if dev != 0 {
		request.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(dev))))
	}
	err = request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE, func(m []byte) bool {
		if m[0] == of.Family { // a kernel without IPv6 answers with all families
			each(m)
		}
		return true
	})
	if errors.Is(err, unix.ENOENT) { // that table never had a route
		return nil
	}
	return err
}

func eachRule(each func(rule dataplane.Rule, message []byte)) error {
	return dump(unix.RTM_GETRULE, unix.RTM_NEWRULE, func(m []byte) { each(ruleOf(m), m) })
}

// Default metrics of IPv6 routes: of those that the kernel makes, and of all others. The
// default for IPv4 is 0.
const (
	kernelMetric6 = 256
	userMetric6   = 1024
)

// routeTypes except unicast, by their names in iproute2.
var routeTypes = map[byte]string{unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast", unix.RTN_ANYCAST: "anycast",
	unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable", unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw", unix.RTN_NAT: "nat"}

// multicasts are all IPv6 multicasts. A host without a route to them in the table local does
// not receive neighbour solicitations for its MAC address.
var multicasts = netip.MustParseAddr("ff00::")

// route of a message. It returns false for routes that the agent neither adds nor removes:
// the kernel itself makes those of the table local, of multicasts and of lo, and caches
// some. From the table local, r keeps the data that addresses need.
func (r *room) route(m []byte) (route dataplane.Route, counts bool) {
	bits, tos, table, protocol, kind, flags := m[1], m[3], uint32(m[4]), m[5], m[7], binary.NativeEndian.Uint32(m[8:])
	ip, metric, usual := netip.IPv4Unspecified(), uint32(0), uint32(0)
	if m[0] == unix.AF_INET6 {
		ip, usual = netip.IPv6Unspecified(), userMetric6
		if protocol == unix.RTPROT_KERNEL {
			usual = kernelMetric6
		}
	}
	var more []string
	for attribute, value := range attributes(m[unix.SizeofRtMsg:]) {
		switch attribute {
		case unix.RTA_TABLE:
			table = number(value)
		case unix.RTA_DST:
			ip, _ = netip.AddrFromSlice(value)
		case unix.RTA_GATEWAY:
			route.Via, _ = netip.AddrFromSlice(value)
		case unix.RTA_PREFSRC:
			route.Src, _ = netip.AddrFromSlice(value)
		case unix.RTA_OIF:
			if route.Dev = r.names[int(number(value))]; route.Dev == "" {
				route.Dev = fmt.Sprintf("if%d", number(value))
			}
		case unix.RTA_PRIORITY:
			metric = number(value)
		case unix.RTA_CACHEINFO, unix.RTA_PREF: // all IPv6 routes have these
		default:
			more = append(more, fmt.Sprintf("attribute %d %x", attribute, value))
		}
	}
	ofKernel := protocol == unix.RTPROT_KERNEL
	if table == unix.RT_TABLE_LOCAL && (ofKernel && kind == unix.RTN_LOCAL || ip == multicasts && bits == 8) {
		r.local[at{route.Dev, ip}] = true
	}
	if flags&unix.RTM_F_CLONED != 0 || kind == unix.RTN_MULTICAST || ip.IsMulticast() ||
		ofKernel && (table != unix.RT_TABLE_MAIN || route.Dev == "lo" && !route.Via.IsValid()) {
		return route, false
	}
	route.Dst = netip.PrefixFrom(ip, int(bits))
	for _, word := range []struct {
		said  bool
		words string
	}{{kind != unix.RTN_UNICAST, "type " + routeTypes[kind]}, {tos != 0, fmt.Sprint("tos ", tos)}, {table != unix.RT_TABLE_MAIN, fmt.Sprint("table ", table)}, {metric != usual, fmt.Sprint("metric ", metric)}} {
		if word.said {
			more = append(more, word.words)
		}
	}
	slices.Sort(more)
	route.More = strings.Join(more, " ")
	return route, true
}

// number is the value of a four-byte attribute.
func number(value []byte) uint32 {
	if len(value) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(value)
}

// ruleOf a message, whose header is struct fib_rule_hdr.
func ruleOf(m []byte) dataplane.Rule {
	const lookup = 1 // FR_ACT_TO_TBL
	const not = 2    // FIB_RULE_INVERT
	rule := dataplane.Rule{IPv6: m[0] == unix.AF_INET6, Table: uint32(m[4])}
	toBits, fromBits, tos, action, flags := m[1], m[2], m[3], m[7], binary.NativeEndian.Uint32(m[8:])
	from, more := "all", []string{}
	for attribute, value := range attributes(m[unix.SizeofRtMsg:]) {
		switch attribute {
		case unix.FRA_PRIORITY:
			rule.Priority = number(value)
		case unix.FRA_TABLE:
			rule.Table = number(value)
		case unix.FRA_SRC:
			ip, _ := netip.AddrFromSlice(value)
			from = fmt.Sprintf("%s/%d", ip, fromBits)
		case unix.FRA_DST:
			ip, _ := netip.AddrFromSlice(value)
			more = append(more, fmt.Sprintf("to %s/%d", ip, toBits))
		case unix.FRA_IIFNAME:
			more = append(more, "iif "+unix.ByteSliceToString(value))
		case unix.FRA_OIFNAME:
			more = append(more, "oif "+unix.ByteSliceToString(value))
		case unix.FRA_PROTOCOL, unix.FRA_PAD: // the program that made it
		case unix.FRA_SUPPRESS_PREFIXLEN:
			if number(value) != ^uint32(0) {
				more = append(more, fmt.Sprint("suppress_prefixlength ", number(value)))
			}
		default:
			more = append(more, fmt.Sprintf("attribute %d %x", attribute, value))
		}
	}
	for _, word := range []struct {
		said  bool
		words string
	}{{tos != 0, fmt.Sprint("tos ", tos)}, {action != lookup, fmt.Sprint("action ", action)}, {flags&not != 0, "not"}} {
		if word.said {
			more = append(more, word.words)
		}
	}
	if from != "all" || len(more) > 0 {
		slices.Sort(more)
		rule.More = strings.Join(append([]string{"from " + from}, more...), " ")
	}
	return rule
}
