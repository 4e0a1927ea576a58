package dataplane

import (
	"net/netip"
	"strings"
	"testing"
)

// The routes that pods need after their Network grew.
func TestPodRoutes(t *testing.T) {
	nodes := []string{"node n1 10.0.0.1", "node n2 10.0.0.2"}
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a pod that has a smaller prefix", []string{"network blue 1001 192.168.0.0/28", "pod a n1 blue=192.168.0.2/29", "cni veth1 a sandbox=/run/netns/cni-a"},
			`default/a: ip -n cni-a route append 192.168.0.0/28 dev net1 src 192.168.0.2`},
		{"the same, of IPv6, by the directory's other name", []string{"network blue 1001 fd00::/124", "pod a n1 blue=fd00::2/125", "cni veth1 a sandbox=/var/run/netns/cni-a"},
			`default/a: ip -n cni-a -6 route append fd00::/124 dev net1`},
		{"a Network that grew to below", []string{"network blue 1001 192.168.0.0/28 gateway=192.168.0.9", "pod a n1 blue=192.168.0.10/29", "cni veth1 a sandbox=/run/netns/cni-a"},
			`default/a: ip -n cni-a route append 192.168.0.0/28 dev net1 src 192.168.0.10`},
		{"a pod that has the whole prefix", []string{"network blue 1001 192.168.0.0/28", "pod a n1 blue=192.168.0.9/28", "cni veth1 a sandbox=/run/netns/cni-a"}, ``},
		{"a pod of another node", []string{"network blue 1001 192.168.0.0/28", "pod a n2 blue=192.168.0.2/29", "cni veth1 a sandbox=/run/netns/cni-a"}, ``},
		{"a pod that CNI has made no port for", []string{"network blue 1001 192.168.0.0/28", "pod a n1 blue=192.168.0.2/29"}, ``},
		{"a pod of an earlier Network with this name", []string{"network blue 1001 192.168.0.0/28", "pod a n1 blue=10.0.0.2/29", "cni veth1 a sandbox=/run/netns/cni-a"}, ``},
		{"a runtime that keeps no namespaces by name", []string{"network blue 1001 192.168.0.0/28", "pod a n1 blue=192.168.0.2/29", "cni veth1 a sandbox=/proc/5/ns/net"},
			`pod default/a cannot reach all of 192.168.0.0/28 until you recreate the pod: its network namespace "/proc/5/ns/net" is not in /run/netns/`},
		{"a path that leads elsewhere", []string{"network blue 1001 192.168.0.0/28", "pod a n1 blue=192.168.0.2/29", "cni veth1 a sandbox=/run/netns/../cni-a"},
			`pod default/a cannot reach all of 192.168.0.0/28 until you recreate the pod: its network namespace "/run/netns/../cni-a" is not in /run/netns/`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, append(nodes, tt.lines...)...)
			s.Host = plug(s.Host, "veth1", 1001)
			_, r := decide(t, s)
			var lines []string
			for _, route := range r.PodRoutes {
				lines = append(lines, route.Pod+": "+Step{route.Network, route.Namespace, AppendRoute{route.Route}}.String())
			}
			expect(t, strings.Join(append(lines, r.Problems...), "\n"), tt.want)
		})
	}
}

// The steps in a pod's namespace, for each state of its interface.
func TestPodRoutePlan(t *testing.T) {
	mac, ip := MAC{2, 0, 0, 0, 0, 2}, netip.MustParseAddr("192.168.0.2")
	route := PodRoute{Network: 1001, Pod: "default/a", Namespace: "cni-a", MAC: mac, IP: ip, Route: Route{Dst: netip.MustParsePrefix("192.168.0.0/28"), Src: ip, Dev: "net1"}}
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
