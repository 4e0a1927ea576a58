//go:build linux

package kernel

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/dataplane"
)

// encode an action; with both, an entry of a VXLAN device is one of its bridge, too.
func (k *Kernel) encode(c *rtnetlink, action dataplane.Action, both bool) ([]request, error) {
	const replace = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	const create = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	one := func(kind, flags uint16, body []byte, err error) ([]request, error) {
		if err != nil {
			return nil, err
		}
		return []request{{kind, flags, body}}, nil
	}
	switch a := action.(type) {
	case dataplane.AddLink:
		body, err := k.newLink(c, a)
		return one(unix.RTM_NEWLINK, create, body, err)
	case dataplane.SetLink:
		return setLink(c, a)
	case dataplane.DelLink:
		return one(unix.RTM_DELLINK, 0, attr(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_IFNAME, append([]byte(a.Name), 0)), nil)
	case dataplane.AddAddress:
		body, err := address(c, a.Address)
		return one(unix.RTM_NEWADDR, create, body, err)
	case dataplane.DelAddress:
		body, err := address(c, a.Address)
		return one(unix.RTM_DELADDR, 0, body, err)
	case dataplane.AddRoute:
		body, err := route(c, a.Route)
		return one(unix.RTM_NEWROUTE, create, body, err)
	case dataplane.DelRoute:
		body, err := route(c, a.Route)
		return one(unix.RTM_DELROUTE, 0, body, err)
	case dataplane.ReplaceFDB:
		body, err := fdb(c, a.FDB, both)
		return one(unix.RTM_NEWNEIGH, replace, body, err)
	case dataplane.DelFDB:
		body, err := fdb(c, a.FDB, false)
		return one(unix.RTM_DELNEIGH, 0, body, err)
	case dataplane.ReplaceNeighbour:
		body, err := neighbour(c, a.Neighbour)
		return one(unix.RTM_NEWNEIGH, replace, body, err)
	case dataplane.DelNeighbour:
		body, err := neighbour(c, a.Neighbour)
		return one(unix.RTM_DELNEIGH, 0, body, err)
	}
	return nil, fmt.Errorf("no such action: %T", action)
}

func family(ip netip.Addr) byte {
	if ip.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func linkAttributes(b []byte, l dataplane.Link) []byte {
	b = attr(b, unix.IFLA_IFNAME, append([]byte(l.Name), 0))
	b = attr(b, unix.IFLA_MTU, u32(uint32(l.MTU)))
	if (l.MAC != dataplane.MAC{}) {
		b = attr(b, unix.IFLA_ADDRESS, l.MAC[:])
	}
	return b
}

func (k *Kernel) newLink(c *rtnetlink, a dataplane.AddLink) ([]byte, error) {
	l := a.Link
	b := linkAttributes(make([]byte, unix.SizeofIfInfomsg), l)
	if l.Master != "" {
		master, err := c.indexOf(l.Master)
		if err != nil {
			return nil, err
		}
		b = attr(b, unix.IFLA_MASTER, u32(master))
	}
	var data []byte
	switch l.Kind {
	case dataplane.KindBridge:
		data = attr(data, unix.IFLA_BR_MCAST_SNOOPING, u8(l.Snooping))
	case dataplane.KindVXLAN:
		data = attr(data, unix.IFLA_VXLAN_ID, u32(uint32(l.VXLAN.VNI)))
		local := uint16(unix.IFLA_VXLAN_LOCAL)
		if l.VXLAN.Local.Is6() {
			local = unix.IFLA_VXLAN_LOCAL6
		}
		data = attr(data, local, l.VXLAN.Local.AsSlice())
		data = attr(data, unix.IFLA_VXLAN_PORT, []byte{byte(l.VXLAN.UDPPort >> 8), byte(l.VXLAN.UDPPort)})
		data = attr(data, unix.IFLA_VXLAN_LEARNING, u8(l.VXLAN.Learning))
	case dataplane.KindVeth:
		peer, err := k.open(a.Peer.Namespace)
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, peer) // the kernel looks for it when the message is sent
		inner := linkAttributes(make([]byte, unix.SizeofIfInfomsg), a.Peer.Link)
		data = nest(data, vethInfoPeer, attr(inner, unix.IFLA_NET_NS_FD, u32(uint32(peer.Fd()))))
	}
	info := attr(nil, unix.IFLA_INFO_KIND, []byte(l.Kind))
	return nest(b, unix.IFLA_LINKINFO, nest(info, unix.IFLA_INFO_DATA, data)), nil
}

// setLink has a message for each part, in the order of the words of the action's text:
// in one message the kernel would bring a link up before the rest.
func setLink(c *rtnetlink, a dataplane.SetLink) ([]request, error) {
	is, want := a.Is, a.Want
	index, err := c.indexOf(want.Name)
	if err != nil {
		return nil, err
	}
	head := func(family byte, flags, change uint32) []byte {
		b := append([]byte{family, 0, 0, 0}, u32(index)...)
		return append(append(b, u32(flags)...), u32(change)...)
	}
	var requests []request
	if is.Master != want.Master {
		var master uint32
		if want.Master != "" {
			if master, err = c.indexOf(want.Master); err != nil {
				return nil, err
			}
		}
		requests = append(requests, request{unix.RTM_SETLINK, 0, attr(head(unix.AF_UNSPEC, 0, 0), unix.IFLA_MASTER, u32(master))})
		is.Port = dataplane.PortDefault
	}
	if is.Port != want.Port {
		var flags []byte
		for _, kind := range []uint16{unix.IFLA_BRPORT_LEARNING, unix.IFLA_BRPORT_NEIGH_SUPPRESS, unix.IFLA_BRPORT_UNICAST_FLOOD, unix.IFLA_BRPORT_MCAST_FLOOD, unix.IFLA_BRPORT_BCAST_FLOOD} {
			flags = attr(flags, kind, u8(*portFlag(&want.Port, kind)))
		}
		requests = append(requests, request{unix.RTM_SETLINK, 0, nest(head(unix.AF_BRIDGE, 0, 0), unix.IFLA_PROTINFO, flags)})
	}
	same, b := len(head(0, 0, 0)), head(unix.AF_UNSPEC, 0, 0)
	if is.MAC != want.MAC {
		b = attr(b, unix.IFLA_ADDRESS, want.MAC[:])
	}
	if is.MTU != want.MTU {
		b = attr(b, unix.IFLA_MTU, u32(uint32(want.MTU)))
	}
	if is.AutoAddress != want.AutoAddress {
		mode := byte(addrGenModeNone)
		if want.AutoAddress {
			mode = addrGenModeEUI64
		}
		b = nest(b, unix.IFLA_AF_SPEC, nest(nil, unix.AF_INET6, attr(nil, unix.IFLA_INET6_ADDR_GEN_MODE, []byte{mode})))
	}
	if is.Snooping != want.Snooping {
		info := attr(nil, unix.IFLA_INFO_KIND, []byte(want.Kind))
		b = nest(b, unix.IFLA_LINKINFO, nest(info, unix.IFLA_INFO_DATA, attr(nil, unix.IFLA_BR_MCAST_SNOOPING, u8(want.Snooping))))
	}
	if len(b) > same {
		requests = append(requests, request{unix.RTM_NEWLINK, 0, b})
	}
	if is.Up != want.Up {
		var flags uint32
		if want.Up {
			flags = unix.IFF_UP
		}
		requests = append(requests, request{unix.RTM_NEWLINK, 0, head(unix.AF_UNSPEC, flags, unix.IFF_UP)})
	}
	return requests, nil
}

func address(c *rtnetlink, a dataplane.Address) ([]byte, error) {
	index, err := c.indexOf(a.Dev)
	if err != nil {
		return nil, err
	}
	ip := a.Prefix.Addr()
	b := append([]byte{family(ip), byte(a.Prefix.Bits()), 0, unix.RT_SCOPE_UNIVERSE}, u32(index)...)
	b = attr(b, unix.IFA_LOCAL, ip.AsSlice())
	b = attr(b, unix.IFA_ADDRESS, ip.AsSlice())
	if ip.Is6() {
		b = attr(b, unix.IFA_FLAGS, u32(unix.IFA_F_NODAD))
	}
	return b, nil
}

func route(c *rtnetlink, r dataplane.Route) ([]byte, error) {
	index, err := c.indexOf(r.Dev)
	if err != nil {
		return nil, err
	}
	b := []byte{family(r.Via), byte(r.Dst.Bits()), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
	if r.Dst.Bits() > 0 {
		b = attr(b, unix.RTA_DST, r.Dst.Addr().AsSlice())
	}
	b = attr(b, unix.RTA_GATEWAY, r.Via.AsSlice())
	return attr(b, unix.RTA_OIF, u32(index)), nil
}

func ndmsg(family byte, index uint32, state uint16, flags byte) []byte {
	b := append([]byte{family, 0, 0, 0}, u32(index)...)
	return append(native.AppendUint16(b, state), flags, 0)
}

func fdb(c *rtnetlink, f dataplane.FDB, both bool) ([]byte, error) {
	index, err := c.indexOf(f.Dev)
	if err != nil {
		return nil, err
	}
	flags := byte(ntfMaster)
	switch {
	case both:
		flags = ntfSelf | ntfMaster | ntfSticky
	case f.Dst.IsValid():
		flags = ntfSelf
	case f.Sticky:
		flags = ntfMaster | ntfSticky
	}
	b := attr(ndmsg(unix.AF_BRIDGE, index, unix.NUD_NOARP|unix.NUD_REACHABLE, flags), unix.NDA_LLADDR, f.MAC[:])
	if f.Dst.IsValid() {
		b = attr(b, unix.NDA_DST, f.Dst.AsSlice())
	}
	return b, nil
}

func neighbour(c *rtnetlink, n dataplane.Neighbour) ([]byte, error) {
	index, err := c.indexOf(n.Dev)
	if err != nil {
		return nil, err
	}
	b := attr(ndmsg(family(n.IP), index, unix.NUD_PERMANENT, 0), unix.NDA_DST, n.IP.AsSlice())
	return attr(b, unix.NDA_LLADDR, n.MAC[:]), nil
}
