package dataplane

import (
	"net/netip"
	"strings"
	"testing"
)

// One Network on this node, of two.
var blue = []string{"node n1 10.0.0.1", "node n2 10.0.0.2", "network blue 1001 192.168.0.0/16"}

func TestFromNothing(t *testing.T) {
	s := state(t, blue...)
	p, _ := decide(t, s)
	expect(t, p.String(), `
		nft replace table inet pod2: 5 chains, 26 rules, 4 sets, 2 elements
		sysctl -w net.ipv4.ip_forward=1
		ip netns add pod2-1001
		ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 7 rules, 0 sets, 0 elements
		ip netns exec pod2-1001 sysctl -w net.ipv4.ip_forward=1
		ip link add rt1001 mtu 1450 type veth peer name lan mtu 1450 address 02:00:5e:00:03:e9 netns pod2-1001
		ip link set rt1001 addrgenmode none up
		ip link add wn1001 mtu 1450 type veth peer name wan mtu 1450 netns pod2-1001
		ip link set wn1001 addrgenmode none up
		ip -n pod2-1001 link set lan addrgenmode none up
		ip -n pod2-1001 link set wan addrgenmode none up
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
		{"one more node", func(s *State) { s.Nodes = append(s.Nodes, Node{"n3", []netip.Addr{netip.MustParseAddr("10.0.0.3")}}) }, `
		nft add element inet pod2 nodes4 { 10.0.0.3 }`},
		{"the last pod of this node is gone", func(s *State) { s.Here = nil }, `
		ip link del wn1001
		ip link del rt1001
		ip netns del pod2-1001`},
		{"the last pod and the Network are gone", func(s *State) { s.Here, s.Networks = nil, nil }, `
		ip link del wn1001
		ip link del rt1001
		ip netns del pod2-1001`},
		{"the Network is gone before its last pod", func(s *State) { s.Networks = nil }, `
		ip link del wn1001
		ip link del rt1001
		ip netns del pod2-1001`},
		{"egress is shut", func(s *State) { s.Networks[0].Egress = false }, `
		ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 5 rules, 0 sets, 0 elements`},
		{"another MTU", func(s *State) { s.Networks[0].MTU = 1400 }, `
		ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 7 rules, 0 sets, 0 elements
		ip link set rt1001 mtu 1400
		ip link set wn1001 mtu 1400
		ip -n pod2-1001 link set lan mtu 1400
		ip -n pod2-1001 link set wan mtu 1400`},
		{"the Network grows", func(s *State) { s.Networks[0].CIDR = netip.MustParsePrefix("192.0.0.0/8") }, `
		ip -n pod2-1001 addr del 192.168.0.1/16 dev lan
		ip -n pod2-1001 addr add 192.168.0.1/8 dev lan`},
		{"a Network before it in the order does not take its transit", func(s *State) {
			s.Networks, s.Here = append(s.Networks, state(t, "network green 7 192.168.0.0/16").Networks...), append(s.Here, 7)
			s.Host = play(t, s.Host, func() Plan { p, _ := decide(t, *s); return p }())
			expect(t, s.Host.Namespace("").Addresses[1].Prefix.String(), "100.64.0.2/31")
		}, ""},
		{"the node has another address", func(s *State) { s.Nodes[0].Addresses[0] = netip.MustParseAddr("10.0.0.7") }, `
		nft delete element inet pod2 nodes4 { 10.0.0.1 }; add element inet pod2 nodes4 { 10.0.0.7 }`},
		{"the address of this node is unknown: all stays", func(s *State) { s.Nodes, s.Here = nil, nil }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, blue...)
			settle(t, &s)
			s.Host = clone(s.Host)
			tt.change(&s)
			p, _ := decide(t, s)
			expect(t, p.String(), tt.want)
			settle(t, &s)
		})
	}
}

func TestCleanUp(t *testing.T) {
	s := state(t, blue...)
	settle(t, &s)
	p := Diff(s.Host, nil)
	expect(t, p.String(), `
		ip link del wn1001
		ip link del rt1001
		ip netns del pod2-1001
		nft delete table inet pod2`)
	if p := Diff(play(t, s.Host, p), nil); len(p) > 0 {
		t.Errorf("left:\n%s", p)
	}
}

// An earlier agent's bridge is removed once it has no port of a pod.
func TestOldBridges(t *testing.T) {
	for _, tt := range []struct {
		name, port string
		change     func(host *Namespace)
		want       string
	}{
		{"without a pod", "", func(*Namespace) {}, `
		ip link del vx1001
		ip link del nw1001
		nft delete table bridge pod2`},
		{"without a pod, and the router is on it", "", func(host *Namespace) { host.Link("rt1001").Master = "nw1001" }, `
		ip link del vx1001
		ip link del nw1001
		nft delete table bridge pod2`},
		{"with a pod: everything stays, and bridged packets are not tracked", "veth1", func(host *Namespace) {
			host.Link("rt1001").Master = "nw1001"
		}, `
		nft replace table inet pod2: 5 chains, 27 rules, 4 sets, 2 elements
		nw1001`},
		{"with a pod, and another router is on it", "veth1", func(host *Namespace) {
			host.Links = append(host.Links, Link{Name: "rt1002", Kind: KindVeth, Master: "nw1001"})
		}, `
		nft replace table inet pod2: 5 chains, 27 rules, 4 sets, 2 elements
		ip link del rt1002
		nw1001`},
		{"without a pod, and the router is on another program's", "", func(host *Namespace) { host.Link("rt1001").Master = "br0" }, `
		ip link del vx1001
		ip link del nw1001
		ip link set rt1001 nomaster
		nft delete table bridge pod2`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, blue...)
			settle(t, &s)
			s.Host = old(s.Host, 1001, tt.port)
			tt.change(s.Host.Namespace(""))
			p, r := decide(t, s)
			expect(t, p.String()+strings.Join(r.Bridges, "\n"), tt.want)
			settle(t, &s)
		})
	}
}

// Cleaning up leaves a bridge that has pods, too.
func TestCleanUpLeavesOldPods(t *testing.T) {
	expect(t, Diff(old(old(nil, 1001, "veth1"), 1002, ""), nil).String(), `
		ip link del vx1002
		ip link del nw1002`)
}

// An IPv6 Network works the same way.
func TestIPv6(t *testing.T) {
	s := state(t, "node n1 10.0.0.1", "node n2 10.0.0.2", "network v6 1002 fd00:10::/64 mtu=1430")
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
		sysctl -w net.ipv6.conf.all.forwarding=1
		sysctl -w net.ipv6.conf.all.forwarding=1`)
}
