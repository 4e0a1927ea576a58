//go:build linux

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/dataplane"
)

// indexes of links that are ours, for who watches.
type indexes struct {
	atomic.Pointer[map[uint32]bool]
}

func (i *indexes) has(index uint32) bool {
	m := i.Load()
	return m != nil && (*m)[index]
}

// readTries bounds how often a table is read that changes meanwhile.
const readTries = 5

// Read what there is of ours. A namespace that vanishes meanwhile is none.
func (k *Kernel) Read() (dataplane.Host, error) {
	names, err := k.namespaces()
	if err != nil {
		return nil, err
	}
	var rooms []*room
	for _, name := range append([]string{""}, names...) {
		r, err := k.readNamespace(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != "":
			continue
		case err != nil:
			return nil, fmt.Errorf("read the kernel's state of network namespace %q: %w", name, err)
		}
		rooms = append(rooms, r)
	}
	pairVeths(rooms)
	ours := map[uint32]bool{}
	for index := range rooms[0].names {
		ours[index] = true
	}
	k.ours.Store(&ours)
	var host dataplane.Host
	for _, r := range rooms {
		host = append(host, r.ns)
	}
	return host, nil
}

// room is a namespace while it is read.
type room struct {
	ns dataplane.Namespace
	// names of links that are ours, or ports of ours, by index. In a router's namespace
	// that is all but lo.
	names map[uint32]string
	// parents are the indexes of the other ends of veths.
	index, parents map[string]uint32
}

func (k *Kernel) readNamespace(name string) (*room, error) {
	var r *room
	err := k.in(name, func() error {
		c, err := dialRoute()
		if err != nil {
			return err
		}
		defer c.close()
		for try := 0; ; try++ {
			r = &room{ns: dataplane.Namespace{Name: name}, names: map[uint32]string{}, index: map[string]uint32{}, parents: map[string]uint32{}}
			err := r.read(c)
			if err == nil {
				break
			}
			if !errors.Is(err, errDumpInterrupted) || try == readTries {
				return err
			}
		}
		if r.ns.Sysctls, err = readSysctls(); err != nil {
			return err
		}
		r.ns.Tables, err = readTables()
		return err
	})
	return r, err
}

func (r *room) read(c *rtnetlink) error {
	if err := r.readLinks(c); err != nil {
		return fmt.Errorf("links: %w", err)
	}
	if err := c.dump(unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg), r.address); err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	if r.ns.Name != "" {
		if err := c.dump(unix.RTM_GETROUTE, make([]byte, unix.SizeofRtMsg), r.route); err != nil {
			return fmt.Errorf("routes: %w", err)
		}
		return nil
	}
	if err := c.dump(unix.RTM_GETNEIGH, make([]byte, unix.SizeofNdMsg), r.neighbour); err != nil {
		return fmt.Errorf("neighbours: %w", err)
	}
	bridges := make([]byte, unix.SizeofNdMsg)
	bridges[0] = unix.AF_BRIDGE
	if err := c.dump(unix.RTM_GETNEIGH, bridges, r.fdb); err != nil {
		return fmt.Errorf("entries of bridges: %w", err)
	}
	return nil
}

// readLinks keeps, of the node's, those that are ours and the ports of our bridges.
func (r *room) readLinks(c *rtnetlink) error {
	type parsed struct {
		dataplane.Link
		index, master, parent uint32
	}
	var all []parsed
	names := map[uint32]string{}
	const skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	err := c.dump(unix.RTM_GETLINK, attr(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_EXT_MASK, u32(skipStatistics)), func(b []byte) {
		p := parsed{Link: dataplane.Link{AutoAddress: true, Port: dataplane.PortDefault}, index: native.Uint32(b[4:])}
		p.Up = native.Uint32(b[8:])&unix.IFF_UP != 0
		for kind, v := range attributes(b[unix.SizeofIfInfomsg:]) {
			switch kind {
			case unix.IFLA_IFNAME:
				p.Name = text(v)
			case unix.IFLA_ADDRESS:
				copy(p.MAC[:], v)
			case unix.IFLA_MTU:
				p.MTU = int(native.Uint32(v))
			case unix.IFLA_MASTER:
				p.master = native.Uint32(v)
			case unix.IFLA_LINK:
				p.parent = native.Uint32(v)
			case unix.IFLA_AF_SPEC:
				p.AutoAddress = autoAddress(v)
			case unix.IFLA_LINKINFO:
				linkInfo(&p.Link, v)
			}
		}
		names[p.index] = p.Name
		all = append(all, p)
	})
	if err != nil {
		return err
	}
	for _, p := range all {
		p.Master = names[p.master]
		mine := dataplane.OwnLink(p.Name) != 0 || dataplane.OwnBridge(p.Master) != 0
		if r.ns.Name != "" {
			mine = p.Name != "lo"
		}
		if mine {
			r.names[p.index], r.index[p.Name], r.parents[p.Name] = p.Name, p.index, p.parent
			r.ns.Links = append(r.ns.Links, p.Link)
		}
	}
	slices.SortFunc(r.ns.Links, func(a, b dataplane.Link) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

func autoAddress(spec []byte) bool {
	for family, v := range attributes(spec) {
		if family != unix.AF_INET6 {
			continue
		}
		for kind, v := range attributes(v) {
			if kind == unix.IFLA_INET6_ADDR_GEN_MODE && len(v) > 0 {
				return v[0] != addrGenModeNone
			}
		}
	}
	return false // without IPv6 there is none to give
}

func linkInfo(l *dataplane.Link, info []byte) {
	var data, port []byte
	var master string
	for kind, v := range attributes(info) {
		switch kind {
		case unix.IFLA_INFO_KIND:
			l.Kind = text(v)
		case unix.IFLA_INFO_DATA:
			data = v
		case unix.IFLA_INFO_SLAVE_KIND:
			master = text(v)
		case unix.IFLA_INFO_SLAVE_DATA:
			port = v
		}
	}
	for kind, v := range attributes(data) {
		switch {
		case l.Kind == dataplane.KindBridge && kind == unix.IFLA_BR_MCAST_SNOOPING:
			l.Snooping = v[0] != 0
		case l.Kind != dataplane.KindVXLAN:
		case kind == unix.IFLA_VXLAN_ID:
			l.VXLAN.VNI = int32(native.Uint32(v))
		case kind == unix.IFLA_VXLAN_LOCAL, kind == unix.IFLA_VXLAN_LOCAL6:
			l.VXLAN.Local, _ = netip.AddrFromSlice(v)
		case kind == unix.IFLA_VXLAN_PORT:
			l.VXLAN.UDPPort = uint16(v[0])<<8 | uint16(v[1])
		case kind == unix.IFLA_VXLAN_LEARNING:
			l.VXLAN.Learning = v[0] != 0
		}
	}
	if master != dataplane.KindBridge {
		return
	}
	for kind, v := range attributes(port) {
		if flag := portFlag(&l.Port, kind); flag != nil {
			*flag = v[0] != 0
		}
	}
}

// portFlag is where the flag of that attribute is; nil if it is none of those we know.
func portFlag(p *dataplane.PortFlags, kind uint16) *bool {
	switch kind {
	case unix.IFLA_BRPORT_LEARNING:
		return &p.Learning
	case unix.IFLA_BRPORT_NEIGH_SUPPRESS:
		return &p.Suppress
	case unix.IFLA_BRPORT_UNICAST_FLOOD:
		return &p.Flood
	case unix.IFLA_BRPORT_MCAST_FLOOD:
		return &p.MulticastFlood
	case unix.IFLA_BRPORT_BCAST_FLOOD:
		return &p.BroadcastFlood
	}
	return nil
}

func (r *room) address(b []byte) {
	name, known := r.names[native.Uint32(b[4:])]
	if !known {
		return
	}
	var local, address []byte
	for kind, v := range attributes(b[unix.SizeofIfAddrmsg:]) {
		switch kind {
		case unix.IFA_LOCAL:
			local = v
		case unix.IFA_ADDRESS:
			address = v
		}
	}
	if local == nil {
		local = address // IPv6
	}
	// A port of somebody else's is its owner's.
	if ip, ok := netip.AddrFromSlice(local); ok && (r.ns.Name != "" || dataplane.OwnLink(name) != 0) {
		r.ns.Addresses = append(r.ns.Addresses, dataplane.Address{Dev: name, Prefix: netip.PrefixFrom(ip, int(b[1]))})
	}
}

func (r *room) route(b []byte) {
	if b[4] != unix.RT_TABLE_MAIN {
		return
	}
	zero := netip.IPv4Unspecified()
	if b[0] == unix.AF_INET6 {
		zero = netip.IPv6Unspecified()
	}
	route := dataplane.Route{Dst: netip.PrefixFrom(zero, int(b[1]))}
	for kind, v := range attributes(b[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_DST:
			if ip, ok := netip.AddrFromSlice(v); ok {
				route.Dst = netip.PrefixFrom(ip, int(b[1]))
			}
		case unix.RTA_GATEWAY:
			route.Via, _ = netip.AddrFromSlice(v)
		case unix.RTA_OIF:
			route.Dev = r.names[native.Uint32(v)]
		}
	}
	if route.Via.IsValid() && route.Dev != "" {
		r.ns.Routes = append(r.ns.Routes, route)
	}
}

func (r *room) neighbour(b []byte) {
	name := r.names[native.Uint32(b[4:])]
	if dataplane.OwnBridge(name) == 0 || native.Uint16(b[8:])&unix.NUD_PERMANENT == 0 {
		return
	}
	n := dataplane.Neighbour{Dev: name}
	for kind, v := range attributes(b[unix.SizeofNdMsg:]) {
		switch kind {
		case unix.NDA_DST:
			n.IP, _ = netip.AddrFromSlice(v)
		case unix.NDA_LLADDR:
			copy(n.MAC[:], v)
		}
	}
	r.ns.Neighbours = append(r.ns.Neighbours, n)
}

// fdb keeps the destinations of VXLAN devices, and the static entries of bridges; the
// permanent ones are the kernel's, for the addresses of the ports themselves.
func (r *room) fdb(b []byte) {
	name, known := r.names[native.Uint32(b[4:])]
	if !known {
		return
	}
	state, bridged := native.Uint16(b[8:]), false
	f := dataplane.FDB{Dev: name}
	for kind, v := range attributes(b[unix.SizeofNdMsg:]) {
		switch kind {
		case unix.NDA_DST:
			f.Dst, _ = netip.AddrFromSlice(v)
		case unix.NDA_LLADDR:
			copy(f.MAC[:], v)
		case unix.NDA_MASTER:
			bridged = true
		}
	}
	switch {
	case bridged && state&unix.NUD_NOARP != 0:
		f.Dst, f.Sticky = netip.Addr{}, b[10]&ntfSticky != 0
	case bridged || !f.Dst.IsValid():
		return
	}
	r.ns.FDB = append(r.ns.FDB, f)
}

// pairVeths says of each veth of ours what its other end is, if that is in a namespace of
// ours: two links whose indexes name each other.
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
