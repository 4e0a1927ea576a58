//go:build linux

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

const (
	addrGenModeEUI64 = 0 // IN6_ADDR_GEN_MODE_EUI64
	addrGenModeNone  = 1 // IN6_ADDR_GEN_MODE_NONE
)

// indexOf a link in the thread's namespace; unix.ENODEV if there is no link with this name.
func indexOf(name string) (int, error) {
	link, err := netlink.LinkByName(name)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		err = unix.ENODEV
	}
	if err != nil {
		return 0, fmt.Errorf("find link %s: %w", name, err)
	}
	return link.Attrs().Index, nil
}

// linkAttrs for the library: only the properties of the link are set.
func linkAttrs(l dataplane.Link) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name, a.MTU = l.Name, l.MTU
	if (l.MAC != dataplane.MAC{}) {
		a.HardwareAddr = l.MAC[:]
	}
	return a
}

func (k *Kernel) addLink(a dataplane.AddLink) error {
	l, attrs := a.Link, linkAttrs(a.Link)
	if l.Master != "" {
		var err error
		if attrs.MasterIndex, err = indexOf(l.Master); err != nil {
			return err
		}
	}
	switch l.Kind {
	case dataplane.KindBridge:
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &l.Snooping})
	case dataplane.KindVXLAN:
		return netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: int(l.VXLAN.VNI), SrcAddr: l.VXLAN.Local.AsSlice(), Port: int(l.VXLAN.UDPPort), Learning: l.VXLAN.Learning})
	case dataplane.KindVeth:
		ns, err := k.open(a.Peer.Namespace)
		if err != nil {
			return err
		}
		defer ns.Close()
		veth, peer := netlink.NewVeth(attrs), linkAttrs(a.Peer.Link)
		veth.PeerName, veth.PeerMTU, veth.PeerHardwareAddr, veth.PeerNamespace = peer.Name, uint32(peer.MTU), peer.HardwareAddr, netlink.NsFd(ns)
		return netlink.LinkAdd(veth)
	}
	return fmt.Errorf("unknown kind of link: %q", l.Kind)
}

// setLink follows the order of the action's text: a link is set up last.
func setLink(a dataplane.SetLink) error {
	is, want := a.Is, a.Want
	index, err := indexOf(want.Name)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Index, attrs.Name = index, want.Name
	link := &netlink.Device{LinkAttrs: attrs}
	blocked := is.Port.Blocked && is.Master == want.Master
	is.Port.Blocked = want.Port.Blocked
	if is.Master != want.Master {
		master := 0
		if want.Master != "" {
			if master, err = indexOf(want.Master); err != nil {
				return err
			}
		}
		if err := netlink.LinkSetMasterByIndex(link, master); err != nil {
			return err
		}
		is.Port = dataplane.PortDefault
	}
	for _, change := range []struct {
		needed bool
		do     func() error
	}{
		{is.Port != want.Port, func() error { return setPort(index, want.Port) }},
		{is.MAC != want.MAC, func() error { return netlink.LinkSetHardwareAddr(link, want.MAC[:]) }},
		{is.MTU != want.MTU, func() error { return netlink.LinkSetMTU(link, want.MTU) }},
		{is.AutoAddress != want.AutoAddress, func() error {
			if want.AutoAddress {
				return netlink.LinkSetIP6AddrGenMode(link, addrGenModeEUI64)
			}
			return netlink.LinkSetIP6AddrGenMode(link, addrGenModeNone)
		}},
		{is.Snooping != want.Snooping, func() error {
			return setBridge(index, nl.IFLA_BR_MCAST_SNOOPING, []byte{bit(want.Snooping)})
		}},
		{is.SpanningTree != want.SpanningTree, func() error {
			return setBridge(index, nl.IFLA_BR_STP_STATE, nl.Uint32Attr(uint32(bit(want.SpanningTree))))
		}},
		{is.Up && !want.Up, func() error { return netlink.LinkSetDown(link) }},
		{!is.Up && want.Up, func() error { return netlink.LinkSetUp(link) }},
		{blocked && !want.Port.Blocked, func() error { return forward(index) }},
	} {
		if change.needed {
			if err := change.do(); err != nil {
				return err
			}
		}
	}
	return nil
}

// portFlags are the attributes of a port of a bridge, with their fields in PortFlags.
var portFlags = map[int]func(*dataplane.PortFlags) *bool{
	nl.IFLA_BRPORT_LEARNING:       func(p *dataplane.PortFlags) *bool { return &p.Learning },
	nl.IFLA_BRPORT_NEIGH_SUPPRESS: func(p *dataplane.PortFlags) *bool { return &p.Suppress },
	nl.IFLA_BRPORT_UNICAST_FLOOD:  func(p *dataplane.PortFlags) *bool { return &p.Flood },
	nl.IFLA_BRPORT_MCAST_FLOOD:    func(p *dataplane.PortFlags) *bool { return &p.MulticastFlood },
	nl.IFLA_BRPORT_BCAST_FLOOD:    func(p *dataplane.PortFlags) *bool { return &p.BroadcastFlood },
	nl.IFLA_BRPORT_ISOLATED:       func(p *dataplane.PortFlags) *bool { return &p.Isolated },
}

// setPort sets all flags at once; the library has no function for two of them.
func setPort(index int, flags dataplane.PortFlags) error {
	port := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
	for kind, flag := range portFlags {
		port.AddRtAttr(kind, []byte{bit(*flag(&flags))})
	}
	return change(unix.AF_BRIDGE, index, port)
}

// forwarding is a port's state in the spanning tree: BR_STATE_FORWARDING.
const forwarding = 3

// forward sets a port to forward packets. If its carrier is gone meanwhile, the port gets
// that state once the carrier is back.
func forward(index int) error {
	port := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
	port.AddRtAttr(nl.IFLA_BRPORT_STATE, nl.Uint8Attr(forwarding))
	if err := change(unix.AF_BRIDGE, index, port); !errors.Is(err, unix.ENETDOWN) {
		return err
	}
	return nil
}

// setBridge changes one attribute of a bridge. The library has no function for the spanning
// tree. Its function for snooping also sends the name of the link. Kernels before 6.2 take it
// for a new name, and refuse it while the link is up: EBUSY.
func setBridge(index, kind int, value []byte) error {
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(dataplane.KindBridge))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(kind, value)
	return change(unix.AF_UNSPEC, index, info)
}

func bit(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// change an attribute of a link.
func change(family, index int, attribute *nl.RtAttr) error {
	kind := unix.RTM_NEWLINK
	if family == unix.AF_BRIDGE {
		kind = unix.RTM_SETLINK
	}
	request := nl.NewNetlinkRequest(kind, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(family)
	message.Index = int32(index)
	request.AddData(message)
	request.AddData(attribute)
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func delLink(name string) error {
	index, err := indexOf(name)
	if err != nil {
		return err
	}
	return netlink.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// addAddress returns once the kernel has put the address into the table local. For IPv6 the
// kernel does so a little later; a read in between would find the address deaf.
func addAddress(a dataplane.Address) error {
	if err := changeAddress(netlink.AddrAdd, a); err != nil || a.Prefix.Addr().Is4() {
		return err
	}
	index, err := indexOf(a.Dev)
	if err != nil {
		return err
	}
	for end := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		local := false
		if err := askRoutes(unix.RtMsg{Family: unix.AF_INET6, Table: unix.RT_TABLE_LOCAL}, index, func(m []byte) {
			local = local || bytes.Equal(attribute(m[unix.SizeofRtMsg:], unix.RTA_DST), a.Prefix.Addr().AsSlice())
		}); err != nil {
			return fmt.Errorf("routes: %w", err)
		}
		if local {
			return nil
		}
		if time.Now().After(end) {
			return errors.New("the kernel did not add the address to the table local")
		}
	}
}

// changeAddress with netlink.AddrAdd or netlink.AddrDel.
func changeAddress(change func(netlink.Link, *netlink.Addr) error, a dataplane.Address) error {
	index, err := indexOf(a.Dev)
	if err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: ipNet(a.Prefix), LinkIndex: index, Broadcast: net.IPv4zero} // no broadcasts
	if a.Prefix.Addr().Is6() {
		address.Flags = unix.IFA_F_NODAD
	}
	return change(nil, address)
}
