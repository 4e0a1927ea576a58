//go:build linux

package kernel

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// readLinks keeps all links of a router. On the node it keeps the agent's links, the ports
// of its bridges, and veths without a bridge; of the latter it reads nothing else.
// netlink.LinkList would neither say whether a link gives itself an IPv6 address nor how a
// bridge treats a port.
func (r *room) readLinks() error {
	const skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	request.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return err
	}
	byIndex := map[int]*netlink.LinkAttrs{}
	links := make([]netlink.Link, len(messages))
	for i, m := range messages {
		if links[i], err = netlink.LinkDeserialize(nil, m); err != nil {
			return fmt.Errorf("parse a message of rtnetlink: %w", err)
		}
		byIndex[links[i].Attrs().Index] = links[i].Attrs()
	}
	for i, l := range links {
		attrs := l.Attrs()
		master := byIndex[attrs.MasterIndex]
		if master == nil {
			master = &netlink.LinkAttrs{}
		}
		mine := dataplane.OwnLink(attrs.Name) != 0 || dataplane.OwnBridge(master.Name) != 0
		if r.ns.Name != "" {
			mine = attrs.Name != "lo"
		}
		if mine || r.ns.Name != "" {
			r.names[attrs.Index], r.index[attrs.Name], r.parents[attrs.Name] = attrs.Name, attrs.Index, attrs.ParentIndex
		}
		if mine || l.Type() == dataplane.KindVeth && attrs.MasterIndex == 0 && r.ns.Name == "" {
			r.ns.Links = append(r.ns.Links, linkOf(l, master, messages[i][unix.SizeofIfInfomsg:]))
		}
	}
	slices.SortFunc(r.ns.Links, func(a, b dataplane.Link) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// linkOf takes the properties that the library read, and the others from the message.
func linkOf(link netlink.Link, master *netlink.LinkAttrs, message []byte) dataplane.Link {
	attrs := link.Attrs()
	l := dataplane.Link{Name: attrs.Name, Kind: link.Type(), MAC: macOf(attrs.HardwareAddr), MTU: attrs.MTU, Master: master.Name,
		Up: attrs.RawFlags&unix.IFF_UP != 0, Port: dataplane.PortDefault}
	switch link := link.(type) {
	case *netlink.Bridge:
		l.Snooping = link.MulticastSnooping != nil && *link.MulticastSnooping
		l.SpanningTree = number(attribute(message, unix.IFLA_LINKINFO, nl.IFLA_INFO_DATA, nl.IFLA_BR_STP_STATE)) != 0
	case *netlink.Vxlan:
		l.VXLAN = dataplane.VXLAN{VNI: int32(link.VxlanId), UDPPort: uint16(link.Port), Learning: link.Learning, External: link.FlowBased}
		l.VXLAN.Local, _ = netip.AddrFromSlice(link.SrcAddr)
	}
	// Without IPv6 the attribute is missing.
	mode := attribute(message, unix.IFLA_AF_SPEC, unix.AF_INET6, unix.IFLA_INET6_ADDR_GEN_MODE)
	l.AutoAddress = len(mode) > 0 && mode[0] != addrGenModeNone
	if string(attribute(message, unix.IFLA_LINKINFO, nl.IFLA_INFO_SLAVE_KIND)) == dataplane.KindBridge+"\x00" {
		port := attribute(message, unix.IFLA_LINKINFO, nl.IFLA_INFO_SLAVE_DATA)
		for kind, value := range attributes(port) {
			if flag, ok := portFlags[kind]; ok && len(value) > 0 {
				*flag(&l.Port) = value[0] != 0
			}
		}
		// The kernel itself stops a port that has no carrier, or whose bridge is down.
		state := attribute(port, nl.IFLA_BRPORT_STATE)
		l.Port.Blocked = len(state) > 0 && state[0] != forwarding && attrs.RawFlags&unix.IFF_RUNNING != 0 && master.RawFlags&unix.IFF_UP != 0
	}
	return l
}

// attributes of a message or of a nested attribute. Unlike nl.ParseRouteAttr it makes no
// list of them.
func attributes(b []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			size := int(binary.NativeEndian.Uint16(b))
			kind := binary.NativeEndian.Uint16(b[2:]) &^ unix.NLA_F_NESTED
			if size < unix.SizeofRtAttr || size > len(b) || !yield(int(kind), b[unix.SizeofRtAttr:size]) {
				return
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// attribute of that kind, or nested in it; nil if there is none.
func attribute(b []byte, kind int, within ...int) []byte {
	for is, value := range attributes(b) {
		switch {
		case is != kind:
		case len(within) == 0:
			return value
		default:
			return attribute(value, within[0], within[1:]...)
		}
	}
	return nil
}

// pairVeths finds the other end of each of the agent's veths, if that end is in one of the
// agent's namespaces: the indexes of the two links name each other.
func pairVeths(rooms []*room) {
	host := rooms[0]
	for i := range host.ns.Links {
		l := &host.ns.Links[i]
		vni := dataplane.OwnLink(l.Name)
		if l.Kind != dataplane.KindVeth || vni == 0 {
			continue
		}
		for _, r := range rooms[1:] {
			for j := range r.ns.Links {
				p := &r.ns.Links[j]
				if dataplane.OwnNamespace(r.ns.Name) == vni && p.Kind == dataplane.KindVeth &&
					r.index[p.Name] == host.parents[l.Name] && r.parents[p.Name] == host.index[l.Name] {
					l.Peer, p.Peer = r.ns.Name+"/"+p.Name, "/"+l.Name
				}
			}
		}
	}
}
