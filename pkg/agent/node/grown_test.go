//go:build linux && kernel

package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// A Network grows while pods run. Old and new pods reach each other, on one node and across
// nodes, whether or not the Network has the pods' default route. All reach the outside,
// without a restart.
func TestGrownNetwork(t *testing.T) { eachFamily(t, grownNetwork) }

func grownNetwork(t *testing.T, f family) {
	l := newLab(t, 2)
	if f.cidr.Addr().Is6() {
		l.alsoIPv6()
	}
	l.echo("world", "world")
	bits := f.cidr.Addr().BitLen()
	blue := l.network("blue", blueVNI, netip.PrefixFrom(f.cidr.Addr(), bits-3).String())
	// The first half of the CIDR has seven addresses and the gateway.
	alone, beside := l.nodes[0].pod("alone", blue, f.pod(2).String()), l.nodes[0].pod("beside", blue, f.pod(3).String())
	l.attach(alone, beside)
	l.in("beside", func() error { return removeDefaultRoute(f) })
	alone.reaches(beside.ip, "beside")

	l.state.Networks[0].CIDR = netip.PrefixFrom(f.cidr.Addr(), bits-4)
	blue = l.state.Networks[0]
	near, far := l.nodes[0].pod("near", blue, f.pod(9).String()), l.nodes[1].pod("far", blue, f.pod(10).String())
	l.attach(near, far)
	for _, old := range []*labPod{alone, beside} {
		for _, young := range []*labPod{near, far} {
			old.reaches(young.ip, young.name)
			young.reaches(old.ip, old.name)
		}
	}
	for _, p := range []*labPod{alone, near, far} {
		p.reaches(f.world(), "world")
	}
	for _, n := range l.nodes {
		if d := n.drops("nd") + n.drops("ip") + n.drops("mac") + n.drops("arp"); d > 0 {
			t.Errorf("%s dropped %d packets of honest pods", n.name, d)
		}
	}
}

// removeDefaultRoute of the thread's namespace, as of a pod whose default route is not on the
// Network.
func removeDefaultRoute(f family) error {
	everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if f.cidr.Addr().Is6() {
		everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netlink.RouteDel(&netlink.Route{Dst: ipNet(everywhere)})
}

// A pod that is attached after its Network has grown gets its route from Add: its address was
// published with the old prefix.
func TestAddAfterNetworkHasGrown(t *testing.T) {
	t.Parallel()
	n := onGrown(t, "a")
	late := n.pod("late", dataplane.Network{Name: "blue", CIDR: netip.MustParsePrefix("192.168.0.0/29")}, "192.168.0.5")
	n.sync()
	late.attach()
	if got, want := n.routesOf("late"), "src 192.168.0.5 metric 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// onGrown is a node with pods that have a prefix of 29 bits of a Network of 28 bits.
func onGrown(t testing.TB, names ...string) *labNode {
	t.Helper()
	l := newLab(t, 1)
	blue := l.network("blue", blueVNI, "192.168.0.0/29")
	var pods []*labPod
	for i, name := range names {
		pods = append(pods, l.nodes[0].pod(name, blue, ipv4.pod(byte(i+2)).String()))
	}
	l.attach(pods...)
	l.state.Networks[0].CIDR = netip.MustParsePrefix("192.168.0.0/28")
	return l.nodes[0]
}

// routesOf a pod to the whole Network.
func (l *lab) routesOf(pod string) string {
	l.Helper()
	var lines []string
	l.in(pod, func() error {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: ipNet(netip.MustParsePrefix("192.168.0.0/28"))}, netlink.RT_FILTER_DST)
		for _, r := range routes {
			lines = append(lines, fmt.Sprintf("src %s metric %d", r.Src, r.Priority))
		}
		return err
	})
	return strings.Join(lines, "\n")
}

func (l *lab) routeIn(pod string, change func(*netlink.Route) error, metric int) {
	l.Helper()
	l.in(pod, func() error {
		link, err := netlink.LinkByName("net1")
		if err != nil {
			return err
		}
		return change(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(netip.MustParsePrefix("192.168.0.0/28")), Scope: netlink.SCOPE_LINK, Priority: metric})
	})
}

// A route that a pod made stays the only one.
func TestPodsOwnRouteStays(t *testing.T) {
	t.Parallel()
	n := onGrown(t, "a")
	n.routeIn("a", netlink.RouteAdd, 7)
	n.sync()
	if got, want := n.routesOf("a"), "src <nil> metric 7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// If a pod's route is removed by hand, it is put back.
func TestPodRouteIsPutBack(t *testing.T) {
	t.Parallel()
	n := onGrown(t, "a")
	n.sync()
	n.routeIn("a", netlink.RouteDel, 0)
	if got, want := n.sync(), "ip -n a route append 192.168.0.0/28 dev net1 src 192.168.0.2\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

// Pods keep their routes when the agent is removed: the routes end with the pods.
func TestCleanUpLeavesPodRoutes(t *testing.T) {
	t.Parallel()
	n := onGrown(t, "a")
	n.sync()
	n.cleanUp()
	if got, want := n.routesOf("a"), "src 192.168.0.2 metric 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A pod whose namespace has no name, or whose interface is another, does not stop other pods' routes.
func TestPodsDoNotStopEachOther(t *testing.T) {
	t.Parallel()
	n := onGrown(t, "nameless", "other", "a")
	n.tell()
	must(t, os.Remove(filepath.Join(n.dir, "nameless")))
	n.in("other", func() error {
		link, err := netlink.LinkByName("net1")
		if err != nil {
			return err
		}
		addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		return netlink.AddrDel(link, &addresses[0])
	})
	_, grown := n.node.State()
	var done dataplane.Plan
	var failed []error
	n.in(n.name, func() error { done, failed = n.kernel.AddPodRoutes(grown); return nil })
	got := done.String()
	for _, err := range failed {
		text, _, _ := strings.Cut(err.Error(), ": no network namespace ")
		got += text + "\n"
	}
	want := `ip -n a route append 192.168.0.0/28 dev net1 src 192.168.0.4
pod default/nameless: it has no route to 192.168.0.0/28
pod default/other: it has no route to 192.168.0.0/28: net1 does not have the MAC address 0a:58:c0:a8:00:03 and the address 192.168.0.3
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
