package dataplane

import (
	"net/netip"
	"slices"
	"testing"
)

// harm is a manual change, and the steps that undo it.
type harm struct {
	name   string
	change func(host, router *Namespace)
	want   string
}

// repaired checks that each change is undone. The node has the Network 1001 and one pod.
func repaired(t *testing.T, lines []string, harms []harm) {
	t.Helper()
	for _, tt := range harms {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, lines...)
			s.Host = plug(s.Host, "veth1", 1001)
			settle(t, &s)
			s.Host = clone(s.Host)
			tt.change(s.Host.Namespace(""), s.Host.Namespace("pod2-1001"))
			p, _ := decide(t, s)
			expect(t, p.String(), tt.want)
			settle(t, &s)
		})
	}
}

// Each manual change is undone, and nothing else is touched.
func TestRepair(t *testing.T) {
	repaired(t, twoPods, []harm{
		{"nothing", func(*Namespace, *Namespace) {}, ""},
		{"all entries of the VXLAN device flushed", func(host, _ *Namespace) {
			host.FDB = slices.DeleteFunc(host.FDB, func(f FDB) bool { return f.Dev == "vx1001" })
		}, `
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 master static sticky`},
		{"neighbours flushed", func(host, _ *Namespace) { host.Neighbours = nil }, `
		ip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent`},
		{"another MAC address of the bridge, for which the kernel flushes neighbours again", func(host, _ *Namespace) {
			host.Link("nw1001").MAC, host.Neighbours = MAC{2}, nil
		}, `
		ip link set nw1001 address 0e:00:5e:00:03:e9
		ip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent`},
		{"bridge down", func(host, _ *Namespace) { host.Link("nw1001").Up, host.Neighbours = false, nil }, `
		ip link set nw1001 up
		ip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent`},
		{"VXLAN device taken off the bridge", func(host, _ *Namespace) {
			host.Link("vx1001").Master, host.Link("vx1001").Port = "", PortDefault
			host.FDB = slices.DeleteFunc(host.FDB, func(f FDB) bool { return f.Dev == "vx1001" && !f.Dst.IsValid() })
		}, `
		ip link set vx1001 master nw1001; bridge link set dev vx1001 learning off neigh_suppress on flood off mcast_flood off bcast_flood off
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 master static sticky`},
		{"the bridge gone, and the port of the pod on none", func(host, _ *Namespace) {
			host.Links = slices.DeleteFunc(host.Links, func(l Link) bool { return l.Name == "nw1001" })
			for i := range host.Links {
				host.Links[i].Master, host.Links[i].Port = "", PortDefault
			}
			host.FDB, host.Neighbours = slices.DeleteFunc(host.FDB, func(f FDB) bool { return !f.Dst.IsValid() }), nil
		}, `
		ip link add nw1001 mtu 1450 address 0e:00:5e:00:03:e9 type bridge mcast_snooping 0
		ip link set nw1001 addrgenmode none up
		ip link set vx1001 master nw1001; bridge link set dev vx1001 learning off neigh_suppress on flood off mcast_flood off bcast_flood off
		ip link set rt1001 master nw1001; bridge link set dev rt1001 learning off
		ip link set veth1 master nw1001
		bridge fdb replace 02:00:5e:00:03:e9 dev rt1001 master static sticky
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 master static sticky
		bridge fdb replace 0a:58:c0:a8:00:02 dev veth1 master static sticky
		ip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent`},
		{"a veth of another program, on no bridge", func(host, _ *Namespace) {
			host.Links = append(host.Links, Link{Name: "veth9", Kind: KindVeth, MTU: 1500, Up: true, Port: PortDefault})
		}, ""},
		{"flooding", func(host, _ *Namespace) { host.Link("vx1001").Port.Flood = true }, `
		bridge link set dev vx1001 flood off`},
		{"a pod's port down", func(host, _ *Namespace) { host.Link("veth1").Up = false }, `
		ip link set veth1 up`},
		{"a pod's port that is cut off from others", func(host, _ *Namespace) {
			host.Link("veth1").Port = PortFlags{Isolated: true}
		}, `
		bridge link set dev veth1 learning on flood on mcast_flood on bcast_flood on isolated off`},
		{"a VXLAN device of another port, which cannot be changed", func(host, _ *Namespace) { host.Link("vx1001").VXLAN.UDPPort = 8472 }, `
		ip link del vx1001
		ip link add vx1001 mtu 1450 master nw1001 type vxlan id 1001 local 10.0.0.1 dstport 4789 nolearning
		bridge link set dev vx1001 learning off neigh_suppress on flood off mcast_flood off bcast_flood off; ip link set vx1001 addrgenmode none up
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 master static sticky`},
		{"a default entry, to which unknown frames would go", func(host, _ *Namespace) {
			host.FDB = append(host.FDB, FDB{Dev: "vx1001", Dst: netip.MustParseAddr("10.0.0.9")})
		}, `
		bridge fdb del 00:00:00:00:00:00 dev vx1001 dst 10.0.0.9 self static`},
		{"one more destination", func(host, _ *Namespace) {
			host.FDB = append(host.FDB, FDB{Dev: "vx1001", MAC: MAC{0x0a, 0x58, 0xc0, 0xa8, 0, 3}, Dst: netip.MustParseAddr("10.0.0.9")})
		}, `
		bridge fdb del 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.9 self static`},
		{"a pod's MAC address on another port", func(host, _ *Namespace) {
			i := slices.IndexFunc(host.FDB, func(f FDB) bool { return f.Dev == "vx1001" && !f.Dst.IsValid() })
			host.FDB[i].Dev = "veth1"
		}, `
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 master static sticky
		bridge fdb del 0a:58:c0:a8:00:03 dev veth1 master static sticky`},
		{"a neighbour of no pod, and one with the wrong MAC address", func(host, _ *Namespace) {
			host.Neighbours = []Neighbour{{"nw1001", netip.MustParseAddr("192.168.0.3"), MAC{2}}, {"nw1001", netip.MustParseAddr("192.168.0.9"), MAC{2}}}
		}, `
		ip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent
		ip neigh del 192.168.0.9 lladdr 02:00:00:00:00:00 dev nw1001 nud permanent`},
		{"an address on the bridge, with which the kernel flushes neighbours", func(host, _ *Namespace) {
			host.Addresses = append(host.Addresses, Address{Dev: "nw1001", Prefix: netip.MustParsePrefix("192.168.0.1/16")})
		}, `
		ip addr del 192.168.0.1/16 dev nw1001
		ip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent`},
		{"the router's addresses and route flushed", func(_, router *Namespace) { router.Addresses, router.Routes = nil, nil }, `
		ip -n pod2-1001 addr add 192.168.0.1/16 dev lan
		ip -n pod2-1001 addr add 100.64.0.1/31 dev wan
		ip -n pod2-1001 route add default via 100.64.0.0 dev wan`},
		{"nothing is routed", func(host, router *Namespace) {
			host.Sysctls[0].Value, router.Sysctls[0].Value = "0", "0"
		}, `
		sysctl -w net.ipv4.ip_forward=1
		ip netns exec pod2-1001 sysctl -w net.ipv4.ip_forward=1`},
		{"nft flush ruleset", func(host, router *Namespace) { host.Tables, router.Tables = nil, nil }, `
		nft replace table bridge pod2: 5 chains, 30 rules, 7 sets, 7 elements
		nft replace table inet pod2: 5 chains, 30 rules, 5 sets, 3 elements
		ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 7 rules, 0 sets, 0 elements`},
		{"a rule gone", func(host, _ *Namespace) {
			host.Tables[0].Chains = slices.Clone(host.Tables[0].Chains)
			host.Tables[0].Chains[0].Rules = host.Tables[0].Chains[0].Rules[1:]
		}, `
		nft replace table bridge pod2: 5 chains, 30 rules, 7 sets, 7 elements`},
		{"elements changed", func(host, _ *Namespace) {
			host.Tables[0].Sets[1].Elements = []string{`"veth1" . 0a:58:c0:a8:00:02 . 192.168.0.9`}
		}, `
		nft delete element bridge pod2 ip4 { "veth1" . 0a:58:c0:a8:00:02 . 192.168.0.9 }; add element bridge pod2 ip4 { "veth1" . 0a:58:c0:a8:00:02 . 192.168.0.2 }`},
		{"an unknown table with the agent's name", func(host, _ *Namespace) {
			host.Tables = append(host.Tables, Table{Family: "ip", Name: "pod2"})
		}, `
		nft delete table ip pod2`},
	})
}

// An entry of a VXLAN device must use the VNI, the UDP port and the route of the device.
func TestRepairDetours(t *testing.T) {
	entry := func(host *Namespace) *FDB {
		return &host.FDB[slices.IndexFunc(host.FDB, FDB.OfVXLAN)]
	}
	repaired(t, twoPods, []harm{
		{"a VNI", func(host, _ *Namespace) { entry(host).Own.VNI = 1002 }, `
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static`},
		{"a UDP port", func(host, _ *Namespace) { entry(host).Own.UDPPort = 8472 }, `
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static`},
		{"an interface", func(host, _ *Namespace) { entry(host).Own.Interface = 7 }, `
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static`},
		{"a nexthop object, which cannot be replaced", func(host, _ *Namespace) {
			entry(host).Dst, entry(host).Own.NextHop = netip.Addr{}, 20
		}, `
		bridge fdb del 0a:58:c0:a8:00:03 dev vx1001 nhid 20 self static
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static`},
		{"the same destination once more, in another VNI", func(host, _ *Namespace) {
			more := *entry(host)
			more.Own = Detour{VNI: 1002, UDPPort: 8472, Interface: 7}
			host.FDB = append(host.FDB, more)
		}, `
		bridge fdb del 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 port 8472 vni 1002 via if7 self static`},
		{"a MAC address of no pod, by a nexthop object", func(host, _ *Namespace) {
			host.FDB = append(host.FDB, FDB{Dev: "vx1001", MAC: MAC{2}, Own: Detour{NextHop: 20}})
		}, `
		bridge fdb del 02:00:00:00:00:00 dev vx1001 nhid 20 self static`},
		{"a device that takes the VNI from each packet", func(host, _ *Namespace) { host.Link("vx1001").VXLAN.External = true }, `
		ip link del vx1001
		ip link add vx1001 mtu 1450 master nw1001 type vxlan id 1001 local 10.0.0.1 dstport 4789 nolearning
		bridge link set dev vx1001 learning off neigh_suppress on flood off mcast_flood off bcast_flood off; ip link set vx1001 addrgenmode none up
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 master static sticky`},
	})
}

// The spanning tree is off, and no port waits for it.
func TestRepairSpanningTree(t *testing.T) {
	repaired(t, twoPods, []harm{
		{"a tree, in which all wait", func(host, _ *Namespace) {
			host.Link("nw1001").SpanningTree = true
			for i := range host.Links {
				host.Links[i].Port.Blocked = host.Links[i].Master == "nw1001"
			}
		}, `
		ip link set nw1001 type bridge stp_state 0
		bridge link set dev vx1001 state forwarding
		bridge link set dev rt1001 state forwarding
		bridge link set dev veth1 state forwarding`},
		{"a port that is blocked and has other flags, and snooping", func(host, _ *Namespace) {
			host.Link("nw1001").Snooping, host.Link("nw1001").SpanningTree = true, true
			host.Link("rt1001").Port = PortFlags{Learning: true, Flood: true, MulticastFlood: true, BroadcastFlood: true, Blocked: true}
		}, `
		ip link set nw1001 type bridge mcast_snooping 0 stp_state 0
		bridge link set dev rt1001 learning off; bridge link set dev rt1001 state forwarding`},
	})
}

// A port has the Network's MTU or more.
func TestRepairPortMTU(t *testing.T) {
	repaired(t, twoPods, []harm{
		{"less", func(host, _ *Namespace) { host.Link("veth1").MTU = 1280 }, `
		ip link set veth1 mtu 1450`},
		{"more, which the pod started with", func(host, _ *Namespace) { host.Link("veth1").MTU = 1500 }, ""},
	})
}
