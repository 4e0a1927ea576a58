//go:build linux

package kernel

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// readLinks keeps all links of a router. On the node it keeps the agent's links and the ports
// of an earlier agent's bridges; of the latter it reads nothing else. netlink.LinkList would
// not say whether a link gives itself an IPv6 address.
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
		attrs, master := l.Attrs(), ""
		if m := byIndex[attrs.MasterIndex]; m != nil {
			master = m.Name
		}
		ours := dataplane.OwnLink(attrs.Name) != 0
		if ours || r.ns.Name != "" {
			r.names[attrs.Index], r.index[attrs.Name], r.parents[attrs.Name] = attrs.Name, attrs.Index, attrs.ParentIndex
		}
		if r.ns.Name == "" && (ours || dataplane.OwnBridge(master) != 0) || r.ns.Name != "" && attrs.Name != "lo" {
			r.ns.Links = append(r.ns.Links, linkOf(l, master, messages[i][unix.SizeofIfInfomsg:]))
		}
	}
	slices.SortFunc(r.ns.Links, func(a, b dataplane.Link) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// linkOf takes the properties that the library read, and one more from the message.
func linkOf(link netlink.Link, master string, message []byte) dataplane.Link {
	attrs := link.Attrs()
	// Without IPv6 the attribute is missing.
	mode := attribute(message, unix.IFLA_AF_SPEC, unix.AF_INET6, unix.IFLA_INET6_ADDR_GEN_MODE)
	return dataplane.Link{Name: attrs.Name, Kind: link.Type(), MAC: macOf(attrs.HardwareAddr), MTU: attrs.MTU, Master: master,
		Up: attrs.RawFlags&unix.IFF_UP != 0, AutoAddress: len(mode) > 0 && mode[0] != addrGenModeNone}
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
