//go:build linux && kernel

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// A Network grows while pods run. Old and new pods reach each other, on one node and across
// nodes, whether or not the Network has the pods' default route. All reach the outside,
// without a restart.
func TestGrownNetwork(t *testing.T) { eachFamily(t, grownNetwork) }

func grownNetwork(t *testing.T, f family) {
	c := newCluster(t, 2)
	if f.cidr.Addr().Is6() {
		c.alsoIPv6()
	}
	c.echo("world", "world")
	bits := f.cidr.Addr().BitLen()
	blue := c.network("blue", 1001, netip.PrefixFrom(f.cidr.Addr(), bits-3).String())
	// The first half of the CIDR has seven addresses and the gateway.
	alone, beside := c.nodes[0].pod("alone", blue, f.pod(2).String()), c.nodes[0].pod("beside", blue, f.pod(3).String())
	c.nodes[0].attach(alone)
	c.nodes[0].attach(beside)
	c.in("beside", func() { noDefaultRoute(t, f) })
	c.sync()
	alone.reaches(beside.ip, "beside")

	c.state.Networks[0].CIDR = netip.PrefixFrom(f.cidr.Addr(), bits-4)
	blue = c.state.Networks[0]
	near, far := c.nodes[0].pod("near", blue, f.pod(9).String()), c.nodes[1].pod("far", blue, f.pod(10).String())
	c.nodes[0].attach(near)
	c.nodes[1].attach(far)
	c.sync()
	for _, old := range []*pod{alone, beside} {
		for _, young := range []*pod{near, far} {
			old.reaches(young.ip, young.name)
			young.reaches(old.ip, old.name)
		}
	}
	for _, p := range []*pod{alone, near, far} { // the routers have the new prefix
		p.reaches(f.world(), "world")
	}
	for _, n := range c.nodes {
		if d := n.drops("nd") + n.drops("ip") + n.drops("mac") + n.drops("arp"); d > 0 {
			t.Errorf("%s dropped %d packets of honest pods", n.name, d)
		}
	}
}

// noDefaultRoute makes the thread's namespace that of a pod whose default route is not on
// the Network; here the pod has none.
func noDefaultRoute(t *testing.T, f family) {
	everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if f.cidr.Addr().Is6() {
		everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if err := netlink.RouteDel(&netlink.Route{Dst: ipNet(everywhere)}); err != nil && !errors.Is(err, unix.ESRCH) {
		t.Errorf("remove the default route: %v", err)
	}
}

// onGrown is a node with pods that have a prefix of 29 bits of a Network of 28 bits.
func onGrown(t testing.TB, names ...string) *node {
	t.Helper()
	c := newCluster(t, 1)
	blue := c.network("blue", 1001, "192.168.0.0/29")
	for i, name := range names {
		c.nodes[0].attach(c.nodes[0].pod(name, blue, ipv4.pod(byte(i+2)).String()))
	}
	c.sync()
	c.state.Networks[0].CIDR = netip.MustParsePrefix("192.168.0.0/28")
	return c.nodes[0]
}

// routesOf a pod to the whole Network.
func (c *cluster) routesOf(pod string) string {
	c.Helper()
	var lines []string
	c.in(pod, func() {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: ipNet(netip.MustParsePrefix("192.168.0.0/28"))}, netlink.RT_FILTER_DST)
		if err != nil {
			c.Error(err)
		}
		for _, r := range routes {
			lines = append(lines, fmt.Sprintf("src %s metric %d", r.Src, r.Priority))
		}
	})
	return strings.Join(lines, "\n")
}

func (c *cluster) routeIn(pod string, change func(*netlink.Route) error, metric int) {
	c.Helper()
	c.in(pod, func() {
		index, err := indexOf("net1")
		if err == nil {
			err = change(&netlink.Route{LinkIndex: index, Dst: ipNet(netip.MustParsePrefix("192.168.0.0/28")), Scope: netlink.SCOPE_LINK, Priority: metric})
		}
		if err != nil {
			c.Errorf("change a route of %s: %v", pod, err)
		}
	})
}

// A route that a pod made stays the only one.
func TestPodsOwnRouteStays(t *testing.T) {
	n := onGrown(t, "a")
	n.routeIn("a", netlink.RouteAdd, 7)
	n.sync()
	if got, want := n.routesOf("a"), "src <nil> metric 7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// If a pod's route is removed by hand, it is put back.
func TestPodRouteIsPutBack(t *testing.T) {
	n := onGrown(t, "a")
	n.sync()
	n.routeIn("a", netlink.RouteDel, 0)
	if got, want := n.sync(), "ip -n a route append 192.168.0.0/28 dev net1 src 192.168.0.2\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

// Pods keep their routes when the agent is removed: the routes end with the pods.
func TestCleanUpLeavesPodRoutes(t *testing.T) {
	n := onGrown(t, "a")
	n.sync()
	host, err := n.kernel.Read()
	must(t, err)
	_, err = n.kernel.Perform(dataplane.Diff(host, nil))
	must(t, err)
	if got, want := n.routesOf("a"), "src 192.168.0.2 metric 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A pod whose namespace is gone, or is another pod's, does not stop other pods' routes.
func TestPodsDoNotStopEachOther(t *testing.T) {
	n := onGrown(t, "gone", "other", "a")
	for name, leadsTo := range map[string]string{"gone": "nowhere", "other": "a"} {
		path := filepath.Join(n.dir, "netns-"+n.name, name)
		must(t, os.Remove(path))
		must(t, os.Symlink(filepath.Join(n.dir, leadsTo), path))
	}
	_, routes := n.decideAll(n.kernel)
	done, failed := n.kernel.AddPodRoutes(routes)
	got := done.String()
	for _, err := range failed {
		text, _, _ := strings.Cut(err.Error(), ": open ")
		got += text + "\n"
	}
	want := `ip -n a route append 192.168.0.0/28 dev net1 src 192.168.0.4
pod default/gone: it has no route to 192.168.0.0/28
pod default/other: it has no route to 192.168.0.0/28: net1 does not have the MAC address 0a:58:c0:a8:00:03 and the address 192.168.0.3
`
	if !errors.Is(failed[0], os.ErrNotExist) || got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
