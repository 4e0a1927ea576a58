package dataplane

import (
	"net/netip"
	"testing"
)

// Two nodes, one Network, a pod on each node. CNI was first and made the bridge.
var twoPods = []string{
	"node n1 10.0.0.1", "node n2 10.0.0.2",
	"network blue 1001 192.168.0.0/16",
	"pod a n1 blue=192.168.0.2", "pod b n2 blue=192.168.0.3", "cni veth1 a bridge=nw1001",
}

func TestFromNothing(t *testing.T) {
	s := state(t, twoPods...)
	s.Host = plug(s.Host, "veth1", 1001)
	p, _ := decide(t, s)
	expect(t, p.String(), `
		nft replace table bridge pod2: 5 chains, 30 rules, 7 sets, 7 elements
		nft replace table inet pod2: 5 chains, 30 rules, 5 sets, 3 elements
		sysctl -w net.ipv4.ip_forward=1
		ip netns add pod2-1001
		ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 7 rules, 0 sets, 0 elements
		ip netns exec pod2-1001 sysctl -w net.ipv4.ip_forward=1
		ip link set nw1001 address 0e:00:5e:00:03:e9 addrgenmode none type bridge mcast_snooping 0
		ip link add vx1001 mtu 1450 master nw1001 type vxlan id 1001 local 10.0.0.1 dstport 4789 nolearning
		bridge link set dev vx1001 learning off neigh_suppress on flood off mcast_flood off bcast_flood off; ip link set vx1001 addrgenmode none up
		ip link add rt1001 mtu 1450 master nw1001 type veth peer name lan mtu 1450 address 02:00:5e:00:03:e9 netns pod2-1001
		bridge link set dev rt1001 learning off; ip link set rt1001 addrgenmode none up
		ip link add wn1001 mtu 1450 type veth peer name wan mtu 1450 netns pod2-1001
		ip link set wn1001 addrgenmode none up
		ip -n pod2-1001 link set lan addrgenmode none up
		ip -n pod2-1001 link set wan addrgenmode none up
		bridge fdb replace 02:00:5e:00:03:e9 dev rt1001 master static sticky
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 master static sticky
		bridge fdb replace 0a:58:c0:a8:00:02 dev veth1 master static sticky
		ip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent
		ip addr add 100.64.0.0/31 dev wn1001
		ip -n pod2-1001 addr add 192.168.0.1/16 dev lan
		ip -n pod2-1001 addr add 100.64.0.1/31 dev wan
		ip -n pod2-1001 route add default via 100.64.0.0 dev wan`)
	settle(t, &s)
}

// Changes that users and controllers make.
func TestChanges(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *State)
		want   string
	}{
		{"a pod moves from another node to another", func(s *State) {
			s.Nodes = append(s.Nodes, Node{"n3", []netip.Addr{netip.MustParseAddr("10.0.0.3")}})
			s.Pods[1].Node = "n3"
		}, `
		nft add element inet pod2 nodes4 { 10.0.0.3 }
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.3 self static`},
		{"a pod moves here, and CNI has not made its port", func(s *State) { s.Pods[1].Node = "n1" }, `
		bridge fdb del 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static
		bridge fdb del 0a:58:c0:a8:00:03 dev vx1001 master static sticky
		ip neigh del 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent`},
		{"a pod moves here", func(s *State) {
			s.Pods[1].Node = "n1"
			s.Host, s.Ports = plug(s.Host, "veth2", 1001), append(s.Ports, Port{Interface: "veth2", PodUID: "u-b"})
		}, `
		nft add element bridge pod2 dropped { "veth2" }; add element bridge pod2 ip4 { "veth2" . 0a:58:c0:a8:00:03 . 192.168.0.3 }; add element bridge pod2 ip6 { "veth2" . 0a:58:c0:a8:00:03 . fe80::858:c0ff:fea8:3 }; add element bridge pod2 mac { "veth2" . 0a:58:c0:a8:00:03 }; add element bridge pod2 ports { "veth2" }
		bridge fdb replace 0a:58:c0:a8:00:03 dev veth2 master static sticky
		bridge fdb del 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static
		bridge fdb del 0a:58:c0:a8:00:03 dev vx1001 master static sticky
		ip neigh del 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent`},
		{"a pod of another node terminated", func(s *State) { s.Pods = s.Pods[:1] }, `
		bridge fdb del 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static
		bridge fdb del 0a:58:c0:a8:00:03 dev vx1001 master static sticky
		ip neigh del 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent`},
		{"the last pod of this node terminated, its port stays", func(s *State) { s.Pods = s.Pods[1:] }, `
		nft delete element bridge pod2 dropped { "veth1" }; delete element bridge pod2 ip4 { "veth1" . 0a:58:c0:a8:00:02 . 192.168.0.2 }; delete element bridge pod2 ip6 { "veth1" . 0a:58:c0:a8:00:02 . fe80::858:c0ff:fea8:2 }; delete element bridge pod2 mac { "veth1" . 0a:58:c0:a8:00:02 }; delete element bridge pod2 ports { "veth1" }; add element bridge pod2 strangers { "veth1" }
		bridge fdb del 0a:58:c0:a8:00:02 dev veth1 master static sticky`},
		{"the last pod of this node is gone", func(s *State) {
			s.Pods = s.Pods[1:]
			(&kernel{h: s.Host}).unlink("", "veth1")
		}, `
		nft delete element bridge pod2 dropped { "veth1" }; delete element bridge pod2 ip4 { "veth1" . 0a:58:c0:a8:00:02 . 192.168.0.2 }; delete element bridge pod2 ip6 { "veth1" . 0a:58:c0:a8:00:02 . fe80::858:c0ff:fea8:2 }; delete element bridge pod2 mac { "veth1" . 0a:58:c0:a8:00:02 }; delete element bridge pod2 ports { "veth1" }; delete element bridge pod2 trunks { "rt1001", "vx1001" }
		ip link del wn1001
		ip link del rt1001
		ip link del vx1001
		ip netns del pod2-1001
		ip neigh del 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent`},
		{"the last pod and the Network are gone", func(s *State) {
			s.Pods, s.Networks = s.Pods[1:], nil
			(&kernel{h: s.Host}).unlink("", "veth1")
		}, `
		nft delete element bridge pod2 dropped { "veth1" }; delete element bridge pod2 ip4 { "veth1" . 0a:58:c0:a8:00:02 . 192.168.0.2 }; delete element bridge pod2 ip6 { "veth1" . 0a:58:c0:a8:00:02 . fe80::858:c0ff:fea8:2 }; delete element bridge pod2 mac { "veth1" . 0a:58:c0:a8:00:02 }; delete element bridge pod2 ports { "veth1" }; delete element bridge pod2 trunks { "rt1001", "vx1001" }
		nft delete element inet pod2 vnis { 1001 }
		ip link del wn1001
		ip link del rt1001
		ip link del vx1001
		ip link del nw1001
		ip netns del pod2-1001`},
		{"egress is shut", func(s *State) { s.Networks[0].Egress = false }, `
		ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 5 rules, 0 sets, 0 elements`},
		{"another MTU", func(s *State) { s.Networks[0].MTU = 1400 }, `
		ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 7 rules, 0 sets, 0 elements
		ip link set nw1001 mtu 1400
		ip link set vx1001 mtu 1400
		ip link set rt1001 mtu 1400
		ip link set wn1001 mtu 1400
		ip -n pod2-1001 link set lan mtu 1400
		ip -n pod2-1001 link set wan mtu 1400`},
		{"the Network grows", func(s *State) { s.Networks[0].CIDR = netip.MustParsePrefix("192.0.0.0/8") }, `
		ip -n pod2-1001 addr del 192.168.0.1/16 dev lan
		ip -n pod2-1001 addr add 192.168.0.1/8 dev lan`},
		{"a Network before it in the order does not take its transit", func(s *State) {
			s.Networks = append(s.Networks, state(t, "network green 7 192.168.0.0/16").Networks...)
			s.Pods = append(s.Pods, state(t, "pod c n1 green=192.168.0.2").Pods...)
			s.Host = play(t, s.Host, func() Plan { p, _ := decide(t, *s); return p }())
			expect(t, s.Host.Namespace("").Addresses[1].Prefix.String(), "100.64.0.2/31")
		}, ""},
		{"the node has another address", func(s *State) { s.Nodes[0].Addresses[0] = netip.MustParseAddr("10.0.0.7") }, `
		nft delete element inet pod2 nodes4 { 10.0.0.1 }; add element inet pod2 nodes4 { 10.0.0.7 }
		ip link del vx1001
		ip link add vx1001 mtu 1450 master nw1001 type vxlan id 1001 local 10.0.0.7 dstport 4789 nolearning
		bridge link set dev vx1001 learning off neigh_suppress on flood off mcast_flood off bcast_flood off; ip link set vx1001 addrgenmode none up
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 master static sticky`},
		{"the address of this node is unknown: all stays", func(s *State) { s.Nodes = nil }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, twoPods...)
			s.Host = plug(s.Host, "veth1", 1001)
			settle(t, &s)
			s.Host = clone(s.Host)
			tt.change(&s)
			p, _ := decide(t, s)
			expect(t, p.String(), tt.want)
			settle(t, &s)
		})
	}
}

// Cleaning up leaves a bridge that has pods: it is the last thing that CNI knows.
func TestCleanUp(t *testing.T) {
	s := state(t, twoPods...)
	s.Host = plug(s.Host, "veth1", 1001)
	settle(t, &s)
	p := Diff(s.Host, nil)
	expect(t, p.String(), `
		ip link del wn1001
		ip link del rt1001
		ip link del vx1001
		ip netns del pod2-1001
		bridge fdb del 0a:58:c0:a8:00:02 dev veth1 master static sticky
		ip neigh del 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent
		nft delete table bridge pod2
		nft delete table inet pod2`)
	if p := Diff(play(t, s.Host, p), nil); len(p) > 0 {
		t.Errorf("left:\n%s", p)
	}
}

// An IPv6 Network works the same way.
func TestIPv6(t *testing.T) {
	s := state(t, "node n1 10.0.0.1", "node n2 10.0.0.2", "network v6 1002 fd00:10::/64 mtu=1430",
		"pod a n1 v6=fd00:10::2", "pod b n2 v6=fd00:10::3", "cni veth1 a")
	s.Host = plug(s.Host, "veth1", 1002)
	settle(t, &s)
	router := s.Host.Namespace("pod2-1002")
	plan := Plan{}
	for _, a := range router.Addresses {
		plan = append(plan, Step{1002, router.Name, AddAddress{a}})
	}
	for _, r := range router.Routes {
		plan = append(plan, Step{1002, router.Name, AddRoute{r}})
	}
	for _, a := range s.Host[0].Addresses {
		plan = append(plan, Step{1002, "", AddAddress{a}})
	}
	for _, n := range s.Host[0].Neighbours {
		plan = append(plan, Step{1002, "", ReplaceNeighbour{n}})
	}
	for _, c := range append(s.Host[0].Sysctls, router.Sysctls...) {
		plan = append(plan, Step{1002, "", SetSysctl{c}})
	}
	expect(t, plan.String(), `
		ip -n pod2-1002 addr add fd00:10::1/64 dev lan nodad
		ip -n pod2-1002 addr add fe80::5eff:fe00:3ea/64 dev lan nodad
		ip -n pod2-1002 addr add fd64:706f:6432::7d5/127 dev wan nodad
		ip -n pod2-1002 addr add fe80::2/64 dev wan nodad
		ip -n pod2-1002 -6 route add fd00:10::/64 dev lan
		ip -n pod2-1002 -6 route add fe80::/64 dev lan
		ip -n pod2-1002 -6 route add fd64:706f:6432::7d4/127 dev wan
		ip -n pod2-1002 -6 route add fe80::/64 dev wan
		ip -n pod2-1002 -6 route add default via fd64:706f:6432::7d4 dev wan
		ip addr add fd64:706f:6432::7d4/127 dev wn1002 nodad
		ip addr add fe80::1/64 dev wn1002 nodad
		ip neigh replace fd00:10::3 lladdr 0a:58:00:00:00:03 dev nw1002 nud permanent
		sysctl -w net.ipv6.conf.all.forwarding=1
		sysctl -w net.ipv6.conf.all.forwarding=1`)
}
