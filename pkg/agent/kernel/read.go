//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// indexes of the agent's links, for Watch.
type indexes struct {
	atomic.Pointer[map[int]bool]
}

func (i *indexes) has(index int) bool {
	m := i.Load()
	return m != nil && (*m)[index]
}

// readTries limits how often to read a table that changes during the read.
const readTries = 5

// Read the agent's part of the kernel's state. It skips a namespace that vanishes meanwhile.
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
	ours := map[int]bool{}
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

// room is a namespace during the read.
type room struct {
	ns dataplane.Namespace
	// names of the agent's links and of the ports of its bridges, by index. In a router's
	// namespace these are all links.
	names map[int]string
	// parents are the indexes of the veths' other ends.
	index, parents map[string]int
	// local holds the addresses in the table local, and the route to all IPv6 multicasts.
	local map[at]bool
}

// at is an address on a device.
type at struct {
	dev string
	ip  netip.Addr
}

func newRoom(name string) *room {
	return &room{ns: dataplane.Namespace{Name: name}, names: map[int]string{}, index: map[string]int{}, parents: map[string]int{}, local: map[at]bool{}}
}

func (k *Kernel) readNamespace(name string) (*room, error) {
	var r *room
	err := k.in(name, func() error {
		for try := 0; ; try++ {
			r = newRoom(name)
			err := r.read()
			if err == nil {
				break
			}
			if !errors.Is(err, netlink.ErrDumpInterrupted) || try == readTries {
				return err
			}
		}
		var err error
		if r.ns.Sysctls, err = readSysctls(); err != nil {
			return err
		}
		r.ns.Tables, err = readTables()
		return err
	})
	return r, err
}

func (r *room) read() error {
	if err := r.readLinks(); err != nil {
		return fmt.Errorf("links: %w", err)
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	for _, a := range addresses {
		r.address(a)
	}
	if err := r.readRoutes(); err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	if r.ns.Name != "" {
		if err := eachRule(func(rule dataplane.Rule, _ []byte) { r.ns.Rules = append(r.ns.Rules, rule) }); err != nil {
			return fmt.Errorf("rules: %w", err)
		}
		return nil
	}
	if err := r.readEntries(unix.AF_UNSPEC, r.neighbour); err != nil {
		return fmt.Errorf("neighbours: %w", err)
	}
	if err := r.readEntries(unix.AF_BRIDGE, r.fdb); err != nil {
		return fmt.Errorf("entries of bridges: %w", err)
	}
	return nil
}

// prefix converts the library's prefix; zero if there is none.
func prefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(ip.Unmap(), bits) // the library uses 16 bytes for a default route
}

// The addresses that the kernel puts on lo.
var loopback4, loopback6 = netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128")

func (r *room) address(a netlink.Addr) {
	// A port of another program belongs to that program.
	name, known := r.names[a.LinkIndex]
	p := prefix(a.IPNet)
	if name == "lo" && (p == loopback4 || p == loopback6) {
		return // lo has them when it is up
	}
	if known && p.IsValid() && (r.ns.Name != "" || dataplane.OwnLink(name) != 0) {
		r.ns.Addresses = append(r.ns.Addresses, dataplane.Address{Dev: name, Prefix: p})
	}
}

// neighbour is the used part of an RTM_NEWNEIGH message: an entry of a bridge or of a VXLAN
// device, or a neighbour.
type neighbour struct {
	state    uint16
	flags    uint8
	dst      netip.Addr
	mac      dataplane.MAC
	ofBridge bool
	own      dataplane.Detour
}

// readEntries reads the entries of a family on the agent's links. Each remote pod has three.
// For 10,000 pods this took 31 to 33 ms of CPU, and 51 to 61 ms with netlink.NeighList
// (BenchmarkLibrary, three runs). NeighList makes lists of the messages, of their attributes
// and of the attributes' values.
func (r *room) readEntries(family uint8, each func(name string, n neighbour)) error {
	request := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
	request.AddData(&netlink.Ndmsg{Family: family})
	return request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH, func(m []byte) bool {
		name, known := r.names[int(binary.NativeEndian.Uint32(m[4:]))]
		if !known {
			return true
		}
		n := neighbour{state: binary.NativeEndian.Uint16(m[8:]), flags: m[10]}
		for kind, value := range attributes(m[unix.SizeofNdMsg:]) {
			switch kind {
			case netlink.NDA_DST:
				n.dst, _ = netip.AddrFromSlice(value)
			case netlink.NDA_LLADDR:
				n.mac = macOf(value)
			case netlink.NDA_MASTER:
				n.ofBridge = true
			case netlink.NDA_VNI:
				n.own.VNI = number(value)
			case netlink.NDA_IFINDEX:
				n.own.Interface = number(value)
			case netlink.NDA_NH_ID:
				n.own.NextHop = number(value)
			case netlink.NDA_PORT:
				n.own.UDPPort = binary.BigEndian.Uint16(value)
			}
		}
		each(name, n)
		return true
	})
}

func (r *room) neighbour(name string, n neighbour) {
	if dataplane.OwnBridge(name) != 0 && n.state&netlink.NUD_PERMANENT != 0 {
		r.ns.Neighbours = append(r.ns.Neighbours, dataplane.Neighbour{Dev: name, IP: n.dst, MAC: n.mac})
	}
}

// fdb keeps the destinations of VXLAN devices and the static entries of bridges. Permanent
// entries are the kernel's own, for the addresses of the ports.
func (r *room) fdb(name string, n neighbour) {
	f := dataplane.FDB{Dev: name, MAC: n.mac}
	switch {
	case n.ofBridge && n.state&netlink.NUD_NOARP != 0:
		f.Sticky = n.flags&netlink.NTF_STICKY != 0
	case n.ofBridge:
		return
	default:
		if f.Dst, f.Own = n.dst, n.own; !f.OfVXLAN() {
			return
		}
	}
	r.ns.FDB = append(r.ns.FDB, f)
}

// macOf six bytes; zero for any other length.
func macOf(b []byte) (mac dataplane.MAC) {
	copy(mac[:], b)
	return mac
}
