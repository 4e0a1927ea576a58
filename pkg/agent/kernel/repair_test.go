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

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// repairs are on the Network blue.
type repairs struct {
	*lab
	family
	blue *pod
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
	for _, tt := range slices.Concat(r.links(), r.tables(), r.routers(), r.routes(), r.rules()) {
		t.Run(tt.name, func(t *testing.T) {
			r.do(tt)
			if got, want := r.sync(), r.text(tt.want); got == "" || want != "" && got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			r.blue.reaches(f.world(), "world")
		})
	}
}

func newRepairs(t *testing.T, f family) *repairs {
	t.Helper()
	l, blue, _ := f.twoNetworks(t)
	return &repairs{l, f, blue}
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
	six, nodad, source := "", "", " src "+r.blue.network.Gateway.String()
	if r.cidr.Addr().Is6() {
		six, nodad, source = "-6 ", " nodad", ""
	}
	lines := slices.Collect(strings.Lines(strings.ReplaceAll(strings.TrimSpace(s), "\t", "")))
	s = strings.NewReplacer("ROUTER", "-n pod2-1001", "CIDR", r.cidr.String(), "FROM-GATEWAY", source,
		"GATEWAY", netip.PrefixFrom(r.blue.network.Gateway, r.cidr.Bits()).String(), "NEAR", r.near.String(), "FAR", r.far.String(),
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

func address(p netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: ipNet(p), Flags: unix.IFA_F_NODAD}
}

func (r *repairs) links() []harm {
	return []harm{
		{"MTU of the router's port", "node1", func() error { return netlink.LinkSetMTU(r.link("rt1001"), 1400) }, "ip link set rt1001 mtu 1450"},
		{"the router's port down", "node1", func() error { return netlink.LinkSetDown(r.link("rt1001")) }, "ip link set rt1001 up"},
		{"the router's port on a bridge", "node1", func() error {
			bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
			return errors.Join(netlink.LinkAdd(bridge), netlink.LinkSetMaster(r.link("rt1001"), bridge))
		}, "ip link set rt1001 nomaster"},
		{"an IPv6 address that the router's port gives itself", "node1", func() error {
			return netlink.LinkSetIP6AddrGenMode(r.link("rt1001"), 0) // IN6_ADDR_GEN_MODE_EUI64
		}, ""},
		{"the gateway's MAC address", "router", func() error {
			return netlink.LinkSetHardwareAddr(r.link("lan"), net.HardwareAddr{2, 0, 0, 0, 0, 1})
		}, "ip ROUTER link set lan address 02:00:5e:00:03:e9"},
		{"the router's port gone, and lan with it", "node1", func() error { return netlink.LinkDel(r.link("rt1001")) }, ""},
		{"nothing is routed", "node1", func() error {
			return setSysctl(dataplane.Sysctl{Name: dataplane.Sysctls[r.of(0, 1)], Value: "0"})
		}, "sysctl -w " + dataplane.Sysctls[r.of(0, 1)] + "=1"},
	}
}

func (r *repairs) tables() []harm {
	return []harm{
		{"no packet meets the rules of the node", "node1", func() error { return dormant(nftables.TableFamilyINet) }, ""},
		{"nft flush ruleset", "node1", flushNFT, ""},
		{"router's nft flush ruleset", "router", flushNFT, "ip netns exec pod2-1001 nft replace table inet pod2: 3 chains, 7 rules, 0 sets, 0 elements"},
	}
}

// Attributes of a nexthop object.
const (
	nhaOIF     = unix.NHA_OIF
	nhaGateway = unix.NHA_GATEWAY
)

// nexthop object with that ID.
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
