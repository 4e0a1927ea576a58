//go:build linux && kernel

package kernel

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

// grown is a node with pods that have a prefix of 29 bits of a Network of 28 bits.
func grown(t testing.TB, names ...string) *lab {
	t.Helper()
	l := newLab(t)
	blue := l.network("blue", 1001, "192.168.0.0/29")
	for i, name := range names {
		l.attach(name, blue, ipv4.pod(byte(i+2)))
	}
	l.sync()
	l.state.Networks[0].CIDR = netip.MustParsePrefix("192.168.0.0/28")
	return l
}

// routesOf a pod to the whole Network.
func (l *lab) routesOf(pod string) string {
	l.Helper()
	var lines []string
	l.in(pod, func() {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: ipNet(netip.MustParsePrefix("192.168.0.0/28"))}, netlink.RT_FILTER_DST)
		if err != nil {
			l.Error(err)
		}
		for _, r := range routes {
			lines = append(lines, fmt.Sprintf("src %s metric %d", r.Src, r.Priority))
		}
	})
	return strings.Join(lines, "\n")
}

func (l *lab) routeIn(pod string, change func(*netlink.Route) error, metric int) {
	l.Helper()
	l.in(pod, func() {
		index, err := indexOf("net1")
		if err == nil {
			err = change(&netlink.Route{LinkIndex: index, Dst: ipNet(netip.MustParsePrefix("192.168.0.0/28")), Scope: netlink.SCOPE_LINK, Priority: metric})
		}
		if err != nil {
			l.Errorf("change a route of %s: %v", pod, err)
		}
	})
}

// A route that a pod made stays the only one.
func TestPodsOwnRouteStays(t *testing.T) {
	l := grown(t, "a")
	l.routeIn("a", netlink.RouteAdd, 7)
	l.sync()
	if got, want := l.routesOf("a"), "src <nil> metric 7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// If a pod's route is removed by hand, it is put back.
func TestPodRouteIsPutBack(t *testing.T) {
	l := grown(t, "a")
	l.sync()
	l.routeIn("a", netlink.RouteDel, 0)
	if got, want := l.sync(), "ip -n a route append 192.168.0.0/28 dev net1 src 192.168.0.2\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

// Pods keep their routes when the agent is removed: the routes end with the pods.
func TestCleanUpLeavesPodRoutes(t *testing.T) {
	l := grown(t, "a")
	l.sync()
	host, err := l.kernel.Read()
	must(t, err)
	_, err = l.kernel.Perform(dataplane.Diff(host, nil))
	must(t, err)
	if got, want := l.routesOf("a"), "src 192.168.0.2 metric 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A pod has its route in either family.
func TestPodRoutes(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		bits := f.cidr.Addr().BitLen()
		l := newLab(t)
		a := l.attach("a", l.network("blue", 1001, netip.PrefixFrom(f.cidr.Addr(), bits-3).String()), f.pod(2))
		l.sync()
		l.state.Networks[0].CIDR = netip.PrefixFrom(f.cidr.Addr(), bits-4)
		if got, want := l.sync(), "ip -n a "; !strings.Contains(got, want) {
			t.Errorf("got %s", got)
		}
		a.reaches(f.world(), "world") // the router has the new prefix
	})
}

// A pod whose namespace is not found, or that has another address by now, does not stop
// other pods' routes.
func TestPodsDoNotStopEachOther(t *testing.T) {
	l := grown(t, "gone", "other", "ended", "a")
	must(t, os.Remove(filepath.Join(l.kernel.dir, "gone")))
	must(t, os.WriteFile(filepath.Join(l.kernel.dir, "file"), nil, 0o600)) // a crash may leave it
	l.state.Ports[1].IP = ipv4.pod(7)
	l.state.Ports[2].Interface = 9999
	_, report := l.decide()
	done, failed := l.kernel.AddPodRoutes(report.PodRoutes)
	got := done.String()
	for _, err := range failed {
		got += err.Error() + "\n"
	}
	want := fmt.Sprintf(`ip -n a route append 192.168.0.0/28 dev net1 src 192.168.0.5
pod default/gone: it has no route to 192.168.0.0/28: no network namespace in %s has the other end of interface %s
pod default/other: it has no route to 192.168.0.0/28: net1 does not have the MAC address 0a:58:c0:a8:00:03 and the address 192.168.0.7
pod default/ended: it has no route to 192.168.0.0/28: interface 9999: Link not found
`, l.kernel.dir, l.pods[0].port)
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
