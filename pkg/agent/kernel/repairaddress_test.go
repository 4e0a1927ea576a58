//go:build linux && kernel

package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// The kernel adds routes of the tables main and local with an address. They are put back
// unchanged, and connections survive.
func TestRepairAddresses(t *testing.T) { eachFamily(t, repairAddresses) }

func repairAddresses(t *testing.T, f family) {
	r := newRepairs(t, f)
	for _, tt := range r.withAddresses() {
		t.Run(tt.name, func(t *testing.T) {
			before := r.routesOf(tt.where)
			conn, err := r.dial("blue1", "tcp", netip.AddrPortFrom(f.world(), 7).String(), nil)
			must(t, err)
			r.do(tt.harm)
			for _, known := range [][2]string{{"blue1", "net1"}, {"router", "lan"}, {"router", "wan"}, {"node1", "wn1001"}} {
				r.forget(r.namespace(known[0]), known[1])
			}
			if tt.lost.IsValid() && r.pings("blue1", tt.lost, silence) {
				t.Errorf("%s is reached", tt.lost)
			}
			if got, want := r.sync(), r.text(tt.want); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			for _, to := range []netip.Addr{r.blue.network.Gateway, f.world()} {
				if !r.pings("blue1", to, patience) {
					t.Errorf("%s is not reached", to)
				}
			}
			if after := r.routesOf(tt.where); after != before {
				t.Errorf("before\n%safter\n%s", before, after)
			}
			expectEcho(t, conn, "world "+f.node(1).String())
		})
	}
}

// loss is a harm, and the address that pods cannot reach until it is repaired, once no MAC
// address is cached. The zero address means that pods still reach all.
type loss struct {
	harm
	lost netip.Addr
}

func (r *repairs) withAddresses() []loss {
	main, local := []int{unix.RT_TABLE_MAIN}, []int{unix.RT_TABLE_LOCAL}
	del := func(tables []int, dev string, to ...netip.Prefix) func() error {
		return func() error { return r.delRoutes(tables, dev, to...) }
	}
	gateway, world := r.blue.network.Gateway, r.world()

	lan, wan, wn := []string{"GATEWAY dev lanNODAD"}, []string{"FAR/BITS dev wanNODAD"}, []string{"NEAR/BITS dev wn1001NODAD"}
	lanRoutes, wanRoutes, wnRoutes := []string{"CIDR dev lanFROM-GATEWAY"}, []string{"NEAR/BITS dev wan src FAR"}, []string{"NEAR/BITS dev wn1001 src NEAR"}
	ipv4Default, defaultRoute := "", add("ip ROUTER SIX route", "default via NEAR dev wan")
	if r.cidr.Addr().Is6() { // IPv6 has two addresses on each
		lan, wan, wn = append(lan, "fe80::5eff:fe00:3e9/64 dev lanNODAD"), append(wan, "fe80::2/64 dev wanNODAD"), append(wn, "fe80::1/64 dev wn1001NODAD")
		lanRoutes, wanRoutes, wnRoutes = append(lanRoutes, "fe80::/64 dev lan"), []string{"NEAR/BITS dev wan", "fe80::/64 dev wan"}, []string{"NEAR/BITS dev wn1001", "fe80::/64 dev wn1001"}
	} else {
		ipv4Default = defaultRoute // is removed with the last address
	}
	list := []loss{
		{harm{"route to the Network", "router", del(main, "lan", r.cidr), add("ip ROUTER SIX route", lanRoutes[0])}, world},
		{harm{"route to the node", "router", del(main, "wan", netip.PrefixFrom(r.near, r.of(31, 127)).Masked()), add("ip ROUTER SIX route", wanRoutes[0])}, netip.Addr{}},
		{harm{"ip route flush table main", "router", del(main, ""), add("ip ROUTER SIX route", append(lanRoutes, wanRoutes...)...) + defaultRoute}, world},
		{harm{"ip route flush table local", "router", del(local, ""), again("ip ROUTER addr", append(lan, wan...)...) + ipv4Default}, world},
		{harm{"ip route flush table all", "router", del(append(main, local...), ""), again("ip ROUTER addr", append(lan, wan...)...) + defaultRoute}, world},
		{harm{"gateway is not local", "router", del(local, "lan", single(gateway)), again("ip ROUTER addr", lan[0])}, gateway},
		{harm{"router is not local to the node", "router", del(local, "wan", single(r.far)), again("ip ROUTER addr", wan[0]) + ipv4Default}, netip.Addr{}},
		{harm{"node's ip route flush dev wn1001", "node1", del(main, "wn1001"), add("ip SIX route", wnRoutes...)}, world},
		{harm{"node's ip route flush dev wn1001 table local", "node1", del(local, "wn1001"), again("ip addr", wn...)}, world},
	}
	if r.cidr.Addr().Is6() {
		all := netip.MustParsePrefix("ff00::/8")
		list = append(list, loss{harm{"multicasts on lan", "router", del(local, "lan", all), again("ip ROUTER addr", lan...)}, world},
			loss{harm{"node's multicasts on wn1001", "node1", del(local, "wn1001", all), again("ip addr", wn...)}, world})
	}
	return list
}

// again removes addresses and adds them.
func again(command string, addresses ...string) string {
	return strings.ReplaceAll(add(command, addresses...), " add ", " del ") + add(command, addresses...)
}

func add(command string, what ...string) (text string) {
	for _, w := range what {
		text += command + " add " + w + "\n"
	}
	return text
}

// delRoutes in the thread's namespace from those tables: only on the device, if given, and
// only to the prefixes, if any.
func (r *repairs) delRoutes(tables []int, dev string, to ...netip.Prefix) error {
	var errs []error
	for _, table := range tables {
		list, err := netlink.RouteListFiltered(r.of(netlink.FAMILY_V4, netlink.FAMILY_V6), &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
		errs = append(errs, err)
		for _, route := range list {
			if (dev == "" || route.LinkIndex == r.index(dev)) && (len(to) == 0 || slices.Contains(to, prefix(route.Dst))) {
				errs = append(errs, netlink.RouteDel(&route))
			}
		}
	}
	return errors.Join(errs...)
}

// routesOf a namespace with all their properties, except how long they were used.
func (r *repairs) routesOf(namespace string) string {
	var lines []string
	r.in(r.namespace(namespace), func() {
		err := dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, func(m []byte) {
			text := fmt.Sprintf("%x", m[:unix.SizeofRtMsg])
			for kind, value := range attributes(m[unix.SizeofRtMsg:]) {
				if kind != unix.RTA_CACHEINFO {
					text += fmt.Sprintf(" %d:%x", kind, value)
				}
			}
			lines = append(lines, text+"\n")
		})
		if err != nil {
			r.Error(err)
		}
	})
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// pings says whether an address answers within patience.
func (r *repairs) pings(from string, to netip.Addr, patience time.Duration) bool {
	r.Helper()
	protocol, request, reply := "ip4:icmp", []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}, byte(0)
	if to.Is6() { // the kernel makes the checksum
		protocol, request, reply = "ip6:ipv6-icmp", []byte{128, 0, 0, 0, 0, 1, 0, 1}, 129
	}
	conn, err := r.dial(r.namespace(from), protocol, to.String(), nil)
	if err != nil {
		return false // no route
	}
	b := make([]byte, 1<<10)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		_, _ = conn.Write(request)
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for err = nil; err == nil; {
			if _, _, err = conn.(*net.IPConn).ReadFrom(b); err == nil && b[0] == reply {
				return true
			}
		}
	}
	return false
}

// A route that was put back is removed with its address, like the kernel's own.
func TestRoutesGoWithTheirAddresses(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		r := newRepairs(t, f)
		for _, on := range []struct{ where, dev string }{{"router", "lan"}, {"router", "wan"}, {"node1", "wn1001"}} {
			remove := func() error { return r.delRoutes([]int{unix.RT_TABLE_MAIN}, on.dev) }
			r.do(harm{where: on.where, do: remove})
			if got := r.sync(); !strings.Contains(got, " route add ") {
				t.Errorf("nothing was put back on %s:\n%s", on.dev, got)
			}
			r.in(r.namespace(on.where), func() {
				link := r.link(on.dev)
				addresses, err := netlink.AddrList(link, r.of(netlink.FAMILY_V4, netlink.FAMILY_V6))
				for _, a := range addresses {
					err = errors.Join(err, netlink.AddrDel(link, &a))
				}
				routes, errList := netlink.RouteList(link, r.of(netlink.FAMILY_V4, netlink.FAMILY_V6))
				routes = slices.DeleteFunc(routes, func(route netlink.Route) bool { return route.Gw != nil })
				if err = errors.Join(err, errList); err != nil || len(routes) > 0 {
					t.Errorf("left on %s: %v, %v", on.dev, routes, err)
				}
			})
		}
		r.sync()
		if !r.pings("blue1", f.world(), patience) {
			t.Error("not repaired")
		}
	})
}

// If a user replaced the node's route to a router, the user's route stays. The agent's
// route comes before it.
func TestRouteOfNodeReplaced(t *testing.T) {
	r := newRepairs(t, ipv4)
	r.do(harm{where: "node1", do: func() error {
		return netlink.RouteReplace(&netlink.Route{Dst: ipNet(netip.PrefixFrom(r.near, 31)), LinkIndex: r.index("eth0"), Scope: netlink.SCOPE_LINK})
	}})
	if r.pings("blue1", r.world(), silence) {
		t.Error("the route leads where it did")
	}
	r.sync()
	if !r.pings("blue1", r.world(), patience) {
		t.Error("not repaired")
	}
}

// The kernel puts an IPv6 address into the table local a little after it was added. A read
// in between must not find it deaf: the agent would remove the address and add it again.
func TestAddressIsLocalOnceAdded(t *testing.T) {
	r := newRepairs(t, ipv6)
	r.in(r.namespace("router"), func() {
		for i := range 100 {
			a := dataplane.Address{Dev: "lan", Prefix: netip.PrefixFrom(r.pod(byte(100+i)), 64)}
			room := newRoom("pod2-1001")
			if err := errors.Join(addAddress(a), room.read()); err != nil || !slices.Contains(room.ns.Addresses, a) {
				t.Errorf("%s: %v, %v", a.Prefix, err, room.ns.Addresses)
			}
		}
	})
}

// A namespace that never had a route has no routing tables.
func TestNodeWithoutRoutes(t *testing.T) {
	dir := t.TempDir()
	must(t, keeper(dir).addNamespace("bare"))
	defer func() { must(t, keeper(dir).delNamespace("bare")) }()
	k, err := NewAt(dir+"/bare", dir+"/netns-bare")
	must(t, err)
	defer k.Close()
	_, err = k.Read()
	must(t, err)
}
