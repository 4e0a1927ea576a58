package dataplane

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// FuzzDiff makes arbitrary clusters, and kernels in the state that an earlier cluster, CNI
// and a user with root left behind. From each, one plan leads to a state where nothing is
// left to do. The order of the observed objects does not matter.
func FuzzDiff(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed, seed*7)
	}
	f.Add(uint64(62), uint64(579)) // CNI recorded one port twice, with the same age, for two bridges
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
		first, _ := decide(t, s)
		for _, shuffle := range []func(){
			func() { dice.Shuffle(len(s.Nodes), func(i, j int) { s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i] }) },
			func() {
				dice.Shuffle(len(s.Networks), func(i, j int) { s.Networks[i], s.Networks[j] = s.Networks[j], s.Networks[i] })
			},
			func() { dice.Shuffle(len(s.Pods), func(i, j int) { s.Pods[i], s.Pods[j] = s.Pods[j], s.Pods[i] }) },
			func() { dice.Shuffle(len(s.Ports), func(i, j int) { s.Ports[i], s.Ports[j] = s.Ports[j], s.Ports[i] }) },
		} {
			shuffle()
			if again, _ := decide(t, s); again.String() != first.String() {
				t.Fatalf("in another order\n%s\ninstead of\n%s", again, first)
			}
		}
		settle(t, &s)
		if _, _, ok := Want(s); ok {
			isolated(t, s)
		}
	})
}

// isolated checks two invariants. All entries of a Network lead to pods of that Network,
// with their MAC address, on their node. Each port of the agent's bridges is a pod's port,
// closed, or the agent's own.
func isolated(t *testing.T, s State) {
	t.Helper()
	for _, l := range s.Host[0].Links {
		var sets []string
		for _, set := range s.Host[0].table("bridge " + TableName).Sets {
			if set.Name != DroppedSet && set.Type == "ifname" && slices.Contains(set.Elements, element(l.Name)) {
				sets = append(sets, set.Name)
			}
		}
		if OwnBridge(l.Master) != 0 && len(sets) != 1 {
			t.Fatalf("%s is in the sets %s", l.Name, sets)
		}
	}
	// somebody says whether such a pod exists on the Network with that VNI.
	somebody := func(vni int32, such func(p Pod, a Attachment) bool) bool {
		return slices.ContainsFunc(s.Pods, func(p Pod) bool {
			return slices.ContainsFunc(p.Attachments, func(a Attachment) bool {
				return such(p, a) && slices.ContainsFunc(s.Networks, func(net Network) bool {
					return net.VNI == vni && net.Name == a.Network && net.Namespace == p.Namespace
				})
			})
		})
	}
	for _, n := range s.Host[0].Neighbours {
		if !somebody(OwnBridge(n.Dev), func(p Pod, a Attachment) bool { return p.Node != s.Node && a.IP == n.IP && a.MAC == n.MAC }) {
			t.Fatalf("a neighbour that is no pod: %v", n)
		}
	}
	for _, f := range s.Host[0].FDB {
		vni := OwnBridge(s.Host[0].Link(f.Dev).Master)
		leads := func(p Pod, a Attachment) bool {
			switch {
			case a.MAC != f.MAC:
				return false
			case f.Dst.IsValid():
				return p.Node != s.Node && slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Name == p.Node && slices.Contains(n.Addresses, f.Dst) })
			case f.Dev == vxlanName(vni):
				return p.Node != s.Node
			}
			return p.Node == s.Node
		}
		if router := f == (FDB{Dev: routerName(vni), MAC: GatewayMAC(vni), Sticky: true}); !router && !somebody(vni, leads) {
			t.Fatalf("an entry that leads to no pod: %v", f)
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
	for i := range dice.IntN(12) {
		p := Pod{Namespace: "default", Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("u%d", i)), Node: fmt.Sprintf("n%d", dice.IntN(4))}
		for j := range 3 {
			a := Attachment{Network: fmt.Sprintf("w%d", j+dice.IntN(3)), IP: netip.AddrFrom4([4]byte{192, 168, 0, byte(1 + dice.IntN(5))}), MAC: MAC{2, 0, 0, 0, 0, byte(dice.IntN(5))}, Bits: dice.IntN(33)}
			if dice.IntN(3) == 0 {
				a.IP = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(1 + dice.IntN(5))})
			}
			if !slices.ContainsFunc(p.Attachments, func(b Attachment) bool { return b.Network == a.Network }) { // a pod has one address on each
				p.Attachments = append(p.Attachments, a)
			}
		}
		s.Pods = append(s.Pods, p)
	}
	mine := filter(s.Pods, func(p Pod) bool { return p.Node == s.Node })
	for range dice.IntN(8) {
		p := Port{fmt.Sprintf("veth%d", dice.IntN(6)), fmt.Sprintf("nw%d", dice.IntN(8)), types.UID(fmt.Sprintf("u%d", dice.IntN(12))), time.Unix(dice.Int64N(3), 0), "/run/netns/cni", "net1"}
		if len(mine) > 0 && dice.IntN(4) > 0 {
			p.PodUID = mine[dice.IntN(len(mine))].UID
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}

// mischief changes a kernel as CNI and a user with root may do.
func mischief(dice *rand.Rand, h Host) Host {
	h = clone(h)
	for i := range dice.IntN(4) {
		if name := fmt.Sprintf("veth%d", dice.IntN(6)); h.Namespace("") == nil || h.Namespace("").Link(name) == nil {
			h = plug(h, name, int32(1+dice.IntN(7)))
		} else if i == 0 {
			(&kernel{h: h}).unlink("", name)
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
		l.MTU, l.Up, l.AutoAddress, l.Snooping = 1300, false, true, l.Kind == KindBridge
		if l.Kind == KindVXLAN {
			l.VXLAN.VNI++
		}
		l.SpanningTree = l.Kind == KindBridge
		ns.Routes = slices.DeleteFunc(ns.Routes, func(r Route) bool { return r.Dev == l.Name }) // because it is down
	}
	if some(len(ns.Links)) {
		l := &ns.Links[dice.IntN(len(ns.Links))]
		l.Port.Blocked = l.Up && l.Master != "" && ns.Link(l.Master).Up
	}
	if ns.Name != "" && some(1) {
		strayInRouter(dice, ns)
	}
	if some(len(ns.FDB)) {
		f := ns.FDB[dice.IntN(len(ns.FDB))]
		f.MAC[5] ^= 1
		if !slices.Contains(ns.FDB, f) {
			(&kernel{h: h}).fdb(ns, f)
		}
		ns.FDB = slices.Delete(ns.FDB, 0, 1)
	}
	if i := slices.IndexFunc(ns.FDB, FDB.OfVXLAN); some(i + 1) {
		if ns.FDB[i].Own = (Detour{VNI: 5}); dice.IntN(2) == 0 {
			ns.FDB[i].Dst, ns.FDB[i].Own = netip.Addr{}, Detour{NextHop: 5}
		}
	}
	if some(len(ns.Neighbours)) {
		ns.Neighbours = ns.Neighbours[1:]
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
		router.Links = append(router.Links, Link{Name: a.Dev, Kind: []string{"dummy", KindHardware}[dice.IntN(2)], MTU: 1500, Up: true, Port: PortDefault})
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
