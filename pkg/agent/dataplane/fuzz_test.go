package dataplane

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/network/multus"
)

// FuzzDiff makes arbitrary clusters, and kernels in the state that an earlier cluster, an
// earlier agent and a user with root left behind. From each, one plan leads to a state where nothing is
// left to do. The order of the observed objects does not matter.
func FuzzDiff(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed, seed*7)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		dice := rand.New(rand.NewPCG(a, b))
		s := arbitraryState(dice)
		for range 1 + dice.IntN(3) {
			s.Host = mischief(dice, s.Host)
			settle(t, &s)
			next := arbitraryState(dice)
			next.Host = s.Host
			s = next
		}
		first, report := decide(t, s)
		untouched(t, s, first)
		for _, shuffle := range []func(){
			func() { dice.Shuffle(len(s.Nodes), func(i, j int) { s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i] }) },
			func() {
				dice.Shuffle(len(s.Networks), func(i, j int) { s.Networks[i], s.Networks[j] = s.Networks[j], s.Networks[i] })
			},
			func() { dice.Shuffle(len(s.Here), func(i, j int) { s.Here[i], s.Here[j] = s.Here[j], s.Here[i] }) },
			func() { dice.Shuffle(len(s.Ports), func(i, j int) { s.Ports[i], s.Ports[j] = s.Ports[j], s.Ports[i] }) },
		} {
			shuffle()
			if again, also := decide(t, s); again.String() != first.String() || !reflect.DeepEqual(also, report) {
				t.Fatalf("in another order\n%s\n%v\ninstead of\n%s\n%v", again, also, first, report)
			}
		}
		settle(t, &s)
	})
}

// untouched checks that the plan leaves alone the bridges that have pods.
func untouched(t *testing.T, s State, p Plan) {
	t.Helper()
	for _, bridge := range s.Host.oldBridges() {
		for _, step := range p {
			for _, l := range []string{bridge, vxlanName(OwnBridge(bridge))} {
				if text := step.String(); text == "ip link del "+l || strings.HasPrefix(text, "ip link set "+l+" ") || text == "nft delete table bridge pod2" {
					t.Fatalf("%s has pods:\n%s", bridge, p)
				}
			}
		}
	}
}

func arbitraryState(dice *rand.Rand) State {
	s := State{Node: "n0", UDPPort: 4789, VXLANReversePathFilter: dice.IntN(2) == 0, Transit: netip.MustParsePrefix("100.64.0.0/29")}
	for _, text := range []string{"10.96.0.0/12", "fd00::/8", "10.96.0.0/12"} {
		if dice.IntN(3) == 0 {
			s.Denied = append(s.Denied, netip.MustParsePrefix(text))
		}
	}
	for _, text := range []string{"10.0.0.1:6443", "[fd0a::1]:6443"} {
		if dice.IntN(3) == 0 {
			s.APIServers = append(s.APIServers, netip.MustParseAddrPort(text))
		}
	}
	for i := range 3 {
		n := Node{Name: fmt.Sprintf("n%d", i)}
		if dice.IntN(10) > 0 {
			n.Addresses = append(n.Addresses, netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i + 4*dice.IntN(2))}))
		}
		if dice.IntN(3) == 0 {
			n.Addresses = append(n.Addresses, netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x0a, 15: byte(1 + i)}))
		}
		s.Nodes = append(s.Nodes, n)
	}
	cidrs := []string{"192.168.0.0/24", "192.168.0.0/16", "fd00::/64", "192.168.0.3/32"}
	for i := range dice.IntN(6) {
		n := Network{Namespace: "default", Name: fmt.Sprintf("w%d", i), VNI: int32(1 + dice.IntN(6)), MTU: 1400 + dice.IntN(2), Egress: dice.IntN(2) == 0,
			CIDR: netip.MustParsePrefix(cidrs[dice.IntN(len(cidrs))])}
		if !n.CIDR.IsSingleIP() {
			n.Gateway = n.CIDR.Addr().Next()
		}
		s.Networks = append(s.Networks, n)
	}
	for range dice.IntN(5) {
		s.Here = append(s.Here, int32(1+dice.IntN(6)))
	}
	for i := range dice.IntN(8) {
		p := Port{Interface: uint32(i), VNI: int32(1 + dice.IntN(6)), Pod: fmt.Sprint(i), IP: netip.AddrFrom4([4]byte{192, 168, 0, byte(1 + dice.IntN(5))}), Bits: dice.IntN(33), Inner: "net1"}
		if dice.IntN(3) == 0 {
			p.IP = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(1 + dice.IntN(5))})
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}

// mischief changes a kernel as an earlier agent and a user with root may do.
func mischief(dice *rand.Rand, h Host) Host {
	h = clone(h)
	for range dice.IntN(3) {
		vni, port := int32(1+dice.IntN(7)), ""
		if port = fmt.Sprintf("veth%d", vni); dice.IntN(2) == 0 {
			port = ""
		}
		h = old(h, vni, port)
		if l := h.Namespace("").Link(RouterName(vni)); l != nil && dice.IntN(2) == 0 {
			l.Master = multus.Bridge(vni)
		}
	}
	if h.Namespace("") == nil {
		return h
	}
	ns := &h[dice.IntN(len(h))]
	some := func(many int) bool { return many > 0 && dice.IntN(3) == 0 }
	if some(len(ns.Links)) {
		(&kernel{h: h}).unlink(ns.Name, ns.Links[dice.IntN(len(ns.Links))].Name)
	}
	if some(len(ns.Links)) {
		l := &ns.Links[dice.IntN(len(ns.Links))]
		l.MTU, l.Up, l.AutoAddress = 1300, false, true
		ns.Routes = slices.DeleteFunc(ns.Routes, func(r Route) bool { return r.Dev == l.Name }) // because it is down
	}
	if ns.Name != "" && some(1) {
		strayInRouter(dice, ns)
	}
	if some(len(ns.Addresses)) {
		ns.delAddress(ns.Addresses[0])
		ns.Routes = nil
	}
	if some(len(ns.Routes)) {
		i := dice.IntN(len(ns.Routes))
		ns.Routes = slices.Delete(ns.Routes, i, i+1)
	}
	if some(len(ns.Addresses)) {
		ns.Addresses[dice.IntN(len(ns.Addresses))].Deaf = true
	}
	if some(len(ns.Tables)) && len(ns.Tables[0].Sets) > 0 {
		ns.Tables[0].Sets[dice.IntN(len(ns.Tables[0].Sets))].Elements = []string{"zzz"}
	}
	if some(len(h)) {
		router := dice.IntN(len(h))
		if name := h[router].Name; name != "" {
			for _, l := range slices.Clone(h[router].Links) {
				(&kernel{h: h}).unlink(name, l.Name)
			}
			h = slices.Delete(h, router, router+1)
		}
	}
	return h
}

// strayInRouter adds a link with an address and a route, one more address, and one more
// rule, or removes a rule.
func strayInRouter(dice *rand.Rand, router *Namespace) {
	a := Address{Dev: "stray0", Prefix: netip.MustParsePrefix("10.5.0.1/24")}
	if router.Link(a.Dev) == nil {
		router.Links = append(router.Links, Link{Name: a.Dev, Kind: []string{"dummy", KindHardware}[dice.IntN(2)], MTU: 1500, Up: true})
		router.addAddress(a)
		router.Routes = append(router.Routes, Route{Dst: netip.MustParsePrefix("10.6.0.0/16"), Via: netip.MustParseAddr("10.5.0.2"), Dev: a.Dev})
	}
	if len(router.Addresses) > 0 {
		more := router.Addresses[dice.IntN(len(router.Addresses))]
		more.Prefix = netip.PrefixFrom(more.Prefix.Addr().Next(), more.Prefix.Bits())
		if !slices.Contains(router.Addresses, more) {
			router.Addresses = slices.Insert(router.Addresses, dice.IntN(2), more)
		}
	}
	router.Rules = append(slices.Delete(router.Rules, 0, min(1, len(router.Rules))), Rule{Priority: uint32(dice.IntN(5)), Table: 9})
}
