package dataplane

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// The routes that pods need after their Network grew.
func TestPodRoutes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a pod that has a smaller prefix", []string{"network blue 1001 192.168.0.0/28", "port 7 1001 a 192.168.0.2/29"},
			`1001 default/a 7 0a:58:c0:a8:00:02 192.168.0.2: ip route append 192.168.0.0/28 dev net1 src 192.168.0.2`},
		{"the same, of IPv6", []string{"network blue 1001 fd00::/124", "port 7 1001 a fd00::2/125"},
			`1001 default/a 7 0a:58:00:00:00:02 fd00::2: ip -6 route append fd00::/124 dev net1`},
		{"a Network that grew to below", []string{"network blue 1001 192.168.0.0/28 gateway=192.168.0.9", "port 7 1001 a 192.168.0.10/29"},
			`1001 default/a 7 0a:58:c0:a8:00:0a 192.168.0.10: ip route append 192.168.0.0/28 dev net1 src 192.168.0.10`},
		{"a pod that has the whole prefix", []string{"network blue 1001 192.168.0.0/28", "port 7 1001 a 192.168.0.9/28"}, ``},
		{"a pod of an earlier Network with this name", []string{"network blue 1001 192.168.0.0/28", "port 7 1001 a 10.0.0.2/29"}, ``},
		{"a Network that is not here", []string{"network blue 1001 192.168.0.0/28 elsewhere", "port 7 1001 a 192.168.0.2/29"}, ``},
		{"a Network that is unknown", []string{"network blue 1001 192.168.0.0/28", "port 7 1002 a 192.168.0.2/29"}, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, r := decide(t, state(t, append([]string{"node n1 10.0.0.1"}, tt.lines...)...))
			var lines []string
			for _, r := range r.PodRoutes {
				lines = append(lines, fmt.Sprintf("%d %s %d %s %s: %s", r.Network, r.Pod, r.Interface, r.MAC, r.IP, AppendRoute{r.Route}))
			}
			expect(t, strings.Join(lines, "\n"), tt.want)
		})
	}
}

// The steps in a pod's namespace, for each state of its interface.
func TestPodRoutePlan(t *testing.T) {
	mac, ip := MAC{2, 0, 0, 0, 0, 2}, netip.MustParseAddr("192.168.0.2")
	route := PodRoute{Network: 1001, Pod: "default/a", Interface: 7, MAC: mac, IP: ip, Route: Route{Dst: netip.MustParsePrefix("192.168.0.0/28"), Src: ip, Dev: "net1"}}
	const add = "ip -n cni-a route append 192.168.0.0/28 dev net1 src 192.168.0.2"
	for _, tt := range []struct {
		name   string
		change func(n *Namespace)
		want   string
	}{
		{"what CNI made", func(*Namespace) {}, add},
		{"it has the route", func(n *Namespace) { n.Routes = append(n.Routes, route.Route) }, ""},
		{"the pod made one of its own", func(n *Namespace) {
			n.Routes = append(n.Routes, Route{Dst: route.Route.Dst, Dev: "net1", Via: netip.MustParseAddr("192.168.0.3"), More: "metric 7"})
		}, ""},
		{"a route to more, and one to less", func(n *Namespace) {
			n.Routes = append(n.Routes, Route{Dst: netip.MustParsePrefix("192.168.0.0/27"), Dev: "net1"}, Route{Dst: netip.MustParsePrefix("192.168.0.8/29"), Dev: "net1"})
		}, add},
		{"the interface is down", func(n *Namespace) { n.Links[0].Up, n.Routes = false, nil }, ""},
		{"there is no such interface", func(n *Namespace) { *n = Namespace{} }, "net1 does not have the MAC address 02:00:00:00:00:02 and the address 192.168.0.2"},
		{"the interface is another", func(n *Namespace) { n.Links[0].MAC[5] = 3 }, "net1 does not have the MAC address 02:00:00:00:00:02 and the address 192.168.0.2"},
		{"it has another address", func(n *Namespace) { n.Addresses[0].Prefix = netip.MustParsePrefix("192.168.0.3/29") }, "net1 does not have the MAC address 02:00:00:00:00:02 and the address 192.168.0.2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := Namespace{Name: "cni-a", Links: []Link{{Name: "net1", Kind: KindVeth, MAC: mac, Up: true}},
				Addresses: []Address{{Dev: "net1", Prefix: netip.PrefixFrom(ip, 29)}}, Routes: []Route{{Dst: netip.MustParsePrefix("192.168.0.0/29"), Src: ip, Dev: "net1"}}}
			tt.change(&is)
			plan, err := route.Plan(is)
			got := plan.String()
			if err != nil {
				got = err.Error()
			}
			expect(t, got, tt.want)
		})
	}
}
