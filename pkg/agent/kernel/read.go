//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

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
	var host dataplane.Host
	for _, r := range rooms {
		host = append(host, r.ns)
	}
	return host, nil
}

// room is a namespace during the read.
type room struct {
	ns dataplane.Namespace
	// names of the agent's links, by index. In a router's namespace these are all links.
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
	name, known := r.names[a.LinkIndex]
	p := prefix(a.IPNet)
	if name == "lo" && (p == loopback4 || p == loopback6) {
		return // lo has them when it is up
	}
	if known && p.IsValid() {
		r.ns.Addresses = append(r.ns.Addresses, dataplane.Address{Dev: name, Prefix: p})
	}
}

// macOf six bytes; zero for any other length.
func macOf(b []byte) (mac dataplane.MAC) {
	copy(mac[:], b)
	return mac
}
