//go:build linux && kernel

package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// repairs are on the Network blue of node1. blue[0] is on node1, blue[1] is not.
type repairs struct {
	*cluster
	family
	node *node
	blue [2]*pod
}

// harm is a change that a user with root makes in a namespace; "router" is blue's router.
// want is the part of the plan that undoes it; "" accepts any plan.
type harm struct {
	name, where string
	do          func() error
	want        string
}

// Things that a user with root breaks work again after a sync.
func TestRepair(t *testing.T) { eachFamily(t, repair) }

func repair(t *testing.T, f family) {
	r := newRepairs(t, f)
	for _, tt := range slices.Concat(r.links(), r.trees(), r.entries(), r.tables(), r.routers(), r.routes(), r.rules()) {
		t.Run(tt.name, func(t *testing.T) {
			r.do(tt)
			if got, want := r.node.sync(), r.text(tt.want); got == "" || want != "" && got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			r.blue[0].reaches(r.blue[1].ip, "blue2")
			r.blue[1].reaches(r.blue[0].ip, "blue1")
			r.blue[0].reaches(f.world(), "world")
		})
	}
}

func newRepairs(t *testing.T, f family) *repairs {
	t.Helper()
	c, blue, _ := f.twoByTwo(t)
	c.echo("world", "world")
	return &repairs{c, f, c.nodes[0], blue}
}

func (r *repairs) do(h harm) {
	r.Helper()
	var err error
	r.in(r.namespace(h.where), func() { err = h.do() })
	must(r, err)
}

// namespace in which a harm is done.
func (r *repairs) namespace(where string) string {
	if where == "router" {
		return "netns-node1/pod2-1001"
	}
	return where
}

// text with the words in capitals replaced by their values.
func (r *repairs) text(s string) string {
	six, nodad, source := "", "", " src "+r.blue[0].network.Gateway.String()
	if r.cidr.Addr().Is6() {
		six, nodad, source = "-6 ", " nodad", ""
	}
	lines := slices.Collect(strings.Lines(strings.ReplaceAll(strings.TrimSpace(s), "\t", "")))
	s = strings.NewReplacer("MAC", r.blue[1].mac.String(), "POD", r.blue[1].ip.String(), "ROUTER", "-n pod2-1001", "CIDR", r.cidr.String(), "FROM-GATEWAY", source,
		"GATEWAY", netip.PrefixFrom(r.blue[0].network.Gateway, r.cidr.Bits()).String(), "NEAR", r.near[0].String(), "FAR", r.far.String(),
		"OTHER", netip.PrefixFrom(r.pod(77), r.cidr.Bits()).String(), "SIX ", six, "NODAD", nodad, "BITS", fmt.Sprint(r.of(31, 127))).Replace(strings.Join(lines, ""))
	if s != "" {
		s += "\n"
	}
	return s
}

// of returns the value for the family.
func (r *repairs) of(four, six int) int {
	if r.cidr.Addr().Is6() {
		return six
	}
	return four
}

func (r *repairs) link(name string) netlink.Link {
	l, err := netlink.LinkByName(name)
	if err != nil {
		r.Error(err)
		return &netlink.Device{}
	}
	return l
}

func (r *repairs) index(name string) int { return r.link(name).Attrs().Index }

func address(p netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: ipNet(p), Flags: unix.IFA_F_NODAD}
}

func (r *repairs) links() []harm {
	return []harm{
		{"bridge down, which flushes neighbours", "node1", func() error { return netlink.LinkSetDown(r.link("nw1001")) }, `
			ip link set nw1001 up
			ip neigh replace POD lladdr MAC dev nw1001 nud permanent`},
		{"VXLAN device gone", "node1", func() error { return netlink.LinkDel(r.link("vx1001")) }, ""},
		{"VXLAN device off the bridge", "node1", func() error { return netlink.LinkSetNoMaster(r.link("vx1001")) }, ""},
		{"bridge gone, and the pods' ports on none", "node1", func() error { return netlink.LinkDel(r.link("nw1001")) }, ""},
		{"learning and flooding", "node1", func() error {
			return errors.Join(netlink.LinkSetLearning(r.link("vx1001"), true), netlink.LinkSetFlood(r.link("vx1001"), true))
		}, "bridge link set dev vx1001 learning off flood off"},
		{"a pod's port down", "node1", func() error { return netlink.LinkSetDown(r.link("vethblue1")) }, "ip link set vethblue1 up"},
		{"a pod's port isolated, learning nothing", "node1", func() error {
			return setPort(r.index("vethblue1"), dataplane.PortFlags{Isolated: true, Flood: true, MulticastFlood: true, BroadcastFlood: true})
		}, "bridge link set dev vethblue1 learning on isolated off"},
		{"MTU, the bridge's with it", "node1", func() error { return netlink.LinkSetMTU(r.link("vx1001"), 1400) }, `
			ip link set nw1001 mtu 1450
			ip link set vx1001 mtu 1450`},
		{"MTU of a pod's port", "node1", func() error { return netlink.LinkSetMTU(r.link("vethblue1"), 1280) }, "ip link set vethblue1 mtu 1450"},
		{"an address on the bridge", "node1", func() error {
			return netlink.AddrAdd(r.link("nw1001"), address(netip.PrefixFrom(r.pod(77), r.cidr.Bits())))
		}, `
			ip addr del OTHER dev nw1001NODAD
			ip neigh replace POD lladdr MAC dev nw1001 nud permanent`},
		{"nothing is routed", "node1", func() error {
			return setSysctl(dataplane.Sysctl{Name: dataplane.Sysctls[r.of(0, 1)], Value: "0"})
		}, "sysctl -w " + dataplane.Sysctls[r.of(0, 1)] + "=1"},
	}
}

// trees: while a bridge has a spanning tree, a new port waits for half a minute. Without
// one, a port keeps the state that a user gave it.
func (r *repairs) trees() []harm {
	state := func(port string, state uint8) error {
		attribute := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
		attribute.AddRtAttr(nl.IFLA_BRPORT_STATE, nl.Uint8Attr(state))
		return change(unix.AF_BRIDGE, r.index(port), attribute)
	}
	const disabled, listening, learning = 0, 1, 2
	return []harm{
		{"a spanning tree", "node1", func() error { return setBridge(r.index("nw1001"), nl.IFLA_BR_STP_STATE, nl.Uint32Attr(1)) }, "ip link set nw1001 type bridge stp_state 0"},
		{"a spanning tree, for which ports wait", "node1", func() error {
			errs := []error{setBridge(r.index("nw1001"), nl.IFLA_BR_STP_STATE, nl.Uint32Attr(1))}
			for _, port := range []string{"vx1001", "rt1001", "vethblue1"} {
				errs = append(errs, netlink.LinkSetDown(r.link(port)), netlink.LinkSetUp(r.link(port)))
				for end := time.Now().Add(patience); r.link(port).Attrs().RawFlags&unix.IFF_RUNNING == 0 && time.Now().Before(end); {
					time.Sleep(time.Millisecond) // the kernel sees the carrier a little later
				}
			}
			return errors.Join(errs...)
		}, `
			ip link set nw1001 type bridge stp_state 0
			bridge link set dev vx1001 state forwarding
			bridge link set dev rt1001 state forwarding
			bridge link set dev vethblue1 state forwarding`},
		{"ports that do not forward", "node1", func() error {
			return errors.Join(state("vx1001", disabled), state("rt1001", listening), state("vethblue1", learning))
		}, `
			bridge link set dev vx1001 state forwarding
			bridge link set dev rt1001 state forwarding
			bridge link set dev vethblue1 state forwarding`},
	}
}

func (r *repairs) tables() []harm {
	return []harm{
		{"no packet meets the rules of bridges", "node1", func() error { return dormant(nftables.TableFamilyBridge) }, ""},
		{"no packet meets the rules of the node", "node1", func() error { return dormant(nftables.TableFamilyINet) }, ""},
		{"nft flush ruleset", "node1", flushNFT, ""},
		{"router's nft flush ruleset", "router", flushNFT, "ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 7 rules, 0 sets, 0 elements"},
	}
}

// An entry must use the VNI, the UDP port and the route of its device.
func (r *repairs) entries() []harm {
	const put = "bridge fdb replace MAC dev vx1001 dst 10.9.0.2 self static"
	entryFor := func(mac dataplane.MAC, flags int, attributes ...*nl.RtAttr) error {
		request := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, unix.NLM_F_ACK|unix.NLM_F_CREATE|flags)
		request.AddData(&netlink.Ndmsg{Family: unix.AF_BRIDGE, Index: uint32(r.index("vx1001")), State: unix.NUD_NOARP | unix.NUD_REACHABLE, Flags: netlink.NTF_SELF})
		request.AddData(nl.NewRtAttr(netlink.NDA_LLADDR, mac[:]))
		for _, a := range attributes {
			request.AddData(a)
		}
		_, err := request.Execute(unix.NETLINK_ROUTE, 0)
		return err
	}
	entry := func(flags int, attributes ...*nl.RtAttr) error { return entryFor(r.blue[1].mac, flags, attributes...) }
	there := nl.NewRtAttr(netlink.NDA_DST, []byte{10, 9, 0, 2})
	green := nl.NewRtAttr(netlink.NDA_VNI, nl.Uint32Attr(1002))
	return []harm{
		{"entries of the VXLAN device and neighbours", "node1", func() error {
			var errs []error
			of := r.of(unix.AF_INET, unix.AF_INET6)
			for _, family := range []int{unix.AF_BRIDGE, of} {
				list, err := netlink.NeighList(0, family)
				errs = append(errs, err)
				for _, e := range list {
					if e.LinkIndex == r.index("vx1001") && e.IP != nil || family == of && e.LinkIndex == r.index("nw1001") && e.State&netlink.NUD_PERMANENT != 0 {
						errs = append(errs, netlink.NeighDel(&e))
					}
				}
			}
			return errors.Join(errs...)
		}, put + "\nip neigh replace POD lladdr MAC dev nw1001 nud permanent"},
		{"an entry that leads into another VNI", "node1", func() error { return entry(unix.NLM_F_REPLACE, there, green) }, put},
		{"an entry that leads to another UDP port", "node1", func() error {
			return entry(unix.NLM_F_REPLACE, there, nl.NewRtAttr(netlink.NDA_PORT, []byte{0x21, 0x18}))
		}, put},
		{"an entry that leads out of an interface", "node1", func() error {
			return entry(unix.NLM_F_REPLACE, there, nl.NewRtAttr(netlink.NDA_IFINDEX, nl.Uint32Attr(uint32(r.index("eth0")))))
		}, put},
		{"entries for unknown MAC addresses, by all ways to one node", "node1", func() error {
			var errs []error
			for _, own := range []*nl.RtAttr{green, nl.NewRtAttr(netlink.NDA_PORT, []byte{0x21, 0x18}), nl.NewRtAttr(netlink.NDA_IFINDEX, nl.Uint32Attr(1)), there} {
				errs = append(errs, entryFor(dataplane.MAC{}, unix.NLM_F_APPEND, there, own))
			}
			return errors.Join(errs...)
		}, `
			bridge fdb del 00:00:00:00:00:00 dev vx1001 dst 10.9.0.2 vni 1002 self static
			bridge fdb del 00:00:00:00:00:00 dev vx1001 dst 10.9.0.2 port 8472 self static
			bridge fdb del 00:00:00:00:00:00 dev vx1001 dst 10.9.0.2 via if1 self static
			bridge fdb del 00:00:00:00:00:00 dev vx1001 dst 10.9.0.2 self static`},
		{"an entry by a nexthop object", "node1", func() error {
			list, err := netlink.NeighList(r.index("vx1001"), unix.AF_BRIDGE)
			for _, e := range list {
				if e.IP != nil {
					err = errors.Join(err, netlink.NeighDel(&e))
				}
			}
			group := append(nl.Uint32Attr(7), 0, 0, 0, 0) // struct nexthop_grp
			return errors.Join(err, nexthop(7, nl.NewRtAttr(nhaFDB, nil), nl.NewRtAttr(nhaGateway, []byte{10, 9, 0, 2})),
				nexthop(8, nl.NewRtAttr(nhaFDB, nil), nl.NewRtAttr(nhaGroup, group)), entry(0, nl.NewRtAttr(netlink.NDA_NH_ID, nl.Uint32Attr(8))))
		}, "bridge fdb del MAC dev vx1001 nhid 8 self static\n" + put},
	}
}

// Attributes of a nexthop object.
const (
	nhaGroup   = unix.NHA_GROUP
	nhaOIF     = unix.NHA_OIF
	nhaGateway = unix.NHA_GATEWAY
	nhaFDB     = 11
)

// nexthop object with that ID. A group has no family.
func nexthop(id uint32, attributes ...*nl.RtAttr) error {
	request := nl.NewNetlinkRequest(unix.RTM_NEWNEXTHOP, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	head := make([]byte, 8) // struct nhmsg
	for _, a := range attributes {
		if a.Type == nhaGateway {
			head[0] = unix.AF_INET
			if len(a.Data) == net.IPv6len {
				head[0] = unix.AF_INET6
			}
		}
	}
	request.AddRawData(head)
	for _, a := range append(attributes, nl.NewRtAttr(unix.NHA_ID, nl.Uint32Attr(id))) {
		request.AddRawData(a.Serialize())
	}
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
