//go:build linux && kernel

package kernel

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
)

const (
	made = `ip link add pod2gw mtu 65535 address 02:00:5e:00:00:00 type veth peer name pod2gwp mtu 65535
ip link set pod2gw arp off
ip link set pod2gw up
ip link set pod2gwp up
`
	route4   = "ip route replace 100.64.0.0/16 dev pod2gw\n"
	route6   = "ip -6 route replace fd64:706f:6432::/96 dev pod2gw\n"
	replaced = "nft replace table inet pod2\n"
)

// Apply makes everything on a new node, the filter first. The gateway stays when no Network needs it.
func TestNewNode(t *testing.T) {
	n := newNode(t)
	if got, want := n.apply(t), replaced+made+"sysctl -w net.ipv4.ip_forward=1\n"+route4+"sysctl -w net.ipv6.conf.all.forwarding=1\n"+route6; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	n.want.Transits = nil
	if got := n.apply(t); got != "" {
		t.Errorf("got\n%s", got)
	}
	n.want.Table = table(t, "10.0.0.2")
	if got := n.apply(t); got != replaced {
		t.Errorf("got\n%s", got)
	}
}

// The transit range is in a route of another program, which stays.
func TestRouteOfAnotherProgram(t *testing.T) {
	n := newNode(t)
	_, wide, _ := net.ParseCIDR("100.64.0.0/10")
	n.in(t, func() error {
		other := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "ovn0", Flags: net.FlagUp}, PeerName: "ovn1"}
		return errors.Join(netlink.LinkAdd(other), netlink.RouteAdd(&netlink.Route{LinkIndex: other.Index, Dst: wide, Scope: netlink.SCOPE_LINK}))
	})
	n.in(t, func() error {
		_, err := n.kernel.Apply(n.want)
		if err == nil || !strings.Contains(err.Error(), "choose another --transit-cidr") {
			t.Errorf("got %v", err)
		}
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		if len(routes) != 1 || routes[0].Dst.String() != wide.String() {
			t.Errorf("routes %v", routes)
		}
		return err
	})
}

// A later agent has another --transit-cidr. The route of the one before is removed.
func TestAnotherTransitCIDR(t *testing.T) {
	n := newNode(t)
	n.apply(t)
	n.want.Transits[0] = netip.MustParsePrefix("100.65.0.0/16")
	if got, want := n.apply(t), "ip route replace 100.65.0.0/16 dev pod2gw\nip route del 100.64.0.0/16 dev pod2gw\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A user's own route by pod2gw stays: the agent did not make it.
func TestUsersRouteByGateway(t *testing.T) {
	n := newNode(t)
	n.apply(t)
	n.in(t, route(netlink.RouteAdd, netip.MustParsePrefix("203.0.113.0/24"), 0))
	if got := n.apply(t); got != "" {
		t.Errorf("got\n%s", got)
	}
}

// A node has turned IPv6 off. The agent turns it on for pod2gw alone.
func TestNodeWithoutIPv6(t *testing.T) {
	n := newNode(t)
	n.in(t, func() error {
		return errors.Join(os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0o644),
			os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0o644))
	})
	if got, want := n.apply(t), "sysctl -w net.ipv6.conf.pod2gw.disable_ipv6=0\n"+route6; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%swant, at the end,\n%s", got, want)
	}
}

// A user with root changes something. The steps undo exactly this.
func TestRepair(t *testing.T) {
	n := newNode(t)
	n.apply(t)
	sysctl := func(name string) func() error {
		return func() error { return os.WriteFile("/proc/sys/net/"+name, []byte("0"), 0o644) }
	}
	rule := func(change func(*nftables.Conn, *nftables.Table, *nftables.Chain, []*nftables.Rule) error) func() error {
		return func() error {
			conn, err := nftables.New()
			if err != nil {
				return err
			}
			table := &nftables.Table{Family: family, Name: dataplane.TableName}
			chain := &nftables.Chain{Table: table, Name: "forward"}
			rules, err := conn.GetRules(table, chain)
			if err != nil {
				return err
			}
			return errors.Join(change(conn, table, chain, rules), conn.Flush())
		}
	}
	accept := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	for _, tt := range []struct {
		name string
		do   func() error
		want string
	}{
		{"pod2gw is gone", on("pod2gw", netlink.LinkDel), made + route4 + route6},
		{"pod2gwp is gone", on("pod2gwp", netlink.LinkDel), made + route4 + route6},
		{"pod2gw is another interface", func() error {
			return errors.Join(on("pod2gw", netlink.LinkDel)(), netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "pod2gw"}}))
		}, "ip link del pod2gw\n" + made + route4 + route6},
		{"pod2gwp is another interface", on("pod2gwp", func(l netlink.Link) error {
			return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, "other"), netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "pod2gwp"}}))
		}), "ip link del pod2gw\nip link del pod2gwp\n" + made + route4 + route6},
		{"pod2gwp is down", on("pod2gwp", netlink.LinkSetDown), "ip link set pod2gwp up\n"},
		{"pod2gw is down, and the kernel removes its routes", on("pod2gw", netlink.LinkSetDown), "ip link set pod2gw up\n" + route4 + route6},
		{"a MAC address", on("pod2gw", func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, net.HardwareAddr{2, 0, 0, 0, 0, 1}) }), "ip link set pod2gw address 02:00:5e:00:00:00\n"},
		{"ARP", on("pod2gw", netlink.LinkSetARPOn), "ip link set pod2gw arp off\n"},
		{"an MTU", on("pod2gwp", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1500) }), "ip link set pod2gwp mtu 65535\n"},
		{"a bridge", on("pod2gw", func(l netlink.Link) error {
			bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
			return errors.Join(netlink.LinkAdd(bridge), netlink.LinkSetMaster(l, bridge))
		}), "ip link set pod2gw nomaster\n"},
		{"the route of IPv4", route(netlink.RouteDel, n.want.Transits[0], 0), route4},
		{"the route of IPv6", route(netlink.RouteDel, n.want.Transits[1], 0), route6},
		{"a second route of IPv4", route(netlink.RouteAdd, n.want.Transits[0], 7), route4},
		{"a second route of IPv6", route(netlink.RouteAdd, n.want.Transits[1], 7), route6},
		{"forwarding of IPv4", sysctl("ipv4/ip_forward"), "sysctl -w net.ipv4.ip_forward=1\n"},
		{"forwarding of IPv6", sysctl("ipv6/conf/all/forwarding"), "sysctl -w net.ipv6.conf.all.forwarding=1\n"},
		{"nft flush ruleset", func() error {
			conn, err := nftables.New()
			if err != nil {
				return err
			}
			conn.FlushRuleset()
			return conn.Flush()
		}, replaced},
		{"a rule too many", rule(func(conn *nftables.Conn, table *nftables.Table, chain *nftables.Chain, _ []*nftables.Rule) error {
			conn.InsertRule(&nftables.Rule{Table: table, Chain: chain, Exprs: accept})
			return nil
		}), replaced},
		{"a rule is gone", rule(func(conn *nftables.Conn, _ *nftables.Table, _ *nftables.Chain, rules []*nftables.Rule) error {
			return conn.DelRule(rules[0])
		}), replaced},
		{"another rule", rule(func(conn *nftables.Conn, table *nftables.Table, chain *nftables.Chain, rules []*nftables.Rule) error {
			conn.ReplaceRule(&nftables.Rule{Table: table, Chain: chain, Handle: rules[0].Handle, UserData: rules[0].UserData, Exprs: accept})
			return nil
		}), replaced},
		{"an element too many", rule(func(conn *nftables.Conn, table *nftables.Table, _ *nftables.Chain, _ []*nftables.Rule) error {
			return conn.SetAddElements(&nftables.Set{Table: table, Name: "nodes4", KeyType: nftables.TypeIPAddr}, []nftables.SetElement{{Key: []byte{1, 2, 3, 4}}})
		}), replaced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n.in(t, tt.do)
			if got := n.apply(t); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

// route by pod2gw with a metric. 0: the usual one.
func route(change func(*netlink.Route) error, to netip.Prefix, metric int) func() error {
	return on("pod2gw", func(l netlink.Link) error {
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: iface.IPNet(to), Priority: metric}
		if to.Addr().Is4() {
			r.Scope = netlink.SCOPE_LINK
		}
		return change(r)
	})
}

// Counts of dropped packets survive the replacement of the table.
func TestDropsOutliveTheTable(t *testing.T) {
	n := newNode(t)
	n.apply(t)
	count := func() (packets uint64) {
		n.in(t, func() error {
			drops, err := n.kernel.Drops()
			packets = drops["inbound"]
			return err
		})
		return packets
	}
	n.in(t, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Sendto(fd, nil, 0, &unix.SockaddrInet4{Port: 7, Addr: [4]byte{100, 64, 0, 9}}); !errors.Is(err, unix.EPERM) {
			t.Errorf("the node sent a packet to a pod: %v", err)
		}
		return nil
	})
	if got := count(); got != 1 {
		t.Fatalf("%d packets were counted", got)
	}
	n.want.Table = table(t, "10.0.0.2")
	n.apply(t)
	if got := count(); got != 1 {
		t.Errorf("after the replacement: %d packets", got)
	}
}

// Bridges with pods are reported. Nothing else of earlier agents stays: bridges, VXLAN devices, routers and their
// namespaces, and the table of bridges.
func TestLeftovers(t *testing.T) {
	n := newNode(t)
	router := newNamespace(t)
	file := filepath.Join(n.kernel.dir, "pod2-70001")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	n.in(t, func() error {
		if err := unix.Mount("/proc/thread-self/ns/net", file, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "nw70001"}}
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		conn.AddTable(&nftables.Table{Family: nftables.TableFamilyBridge, Name: dataplane.TableName})
		err = errors.Join(conn.Flush(), netlink.LinkAdd(bridge), netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vx70001", MasterIndex: bridge.Index}, VxlanId: 70001, Port: 4789}))
		for _, pair := range [][2]string{{"rt70001", "lan"}, {"wn70001", "wan"}} {
			err = errors.Join(err, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: pair[0]}, PeerName: pair[1], PeerNamespace: netlink.NsFd(router)}))
		}
		return errors.Join(err, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "vetha", MasterIndex: bridge.Index}, PeerName: "inner"}))
	})
	bridges := func() (names []string) {
		n.in(t, func() (err error) { names, err = n.kernel.Bridges(); return err })
		return names
	}
	if got := strings.Join(bridges(), " "); got != "nw70001" {
		t.Errorf("bridges with pods: %q", got)
	}
	// On the way back to that version, only the things of this one may go.
	var removed dataplane.Plan
	n.in(t, func() (err error) { removed, err = n.kernel.Remove(false); return err })
	if removed.String() != "" {
		t.Errorf("removed, while a pod needs it:\n%s", removed)
	}
	n.in(t, on("vetha", netlink.LinkDel))
	if got := strings.Join(bridges(), " "); got != "" {
		t.Errorf("bridges with pods: %q", got)
	}
	const want = "ip link del nw70001\nip link del rt70001\nip link del vx70001\nip link del wn70001\nip netns del pod2-70001\nnft delete table bridge pod2\n"
	if got := n.apply(t); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the namespace: %v", err)
	}
}

// Remove leaves nothing.
func TestRemove(t *testing.T) {
	n := newNode(t)
	n.apply(t)
	for _, want := range []string{"ip link del pod2gw\nnft delete table inet pod2\n", ""} {
		var done dataplane.Plan
		n.in(t, func() (err error) { done, err = n.kernel.Remove(true); return err })
		if done.String() != want {
			t.Errorf("got\n%swant\n%s", done, want)
		}
	}
}
