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
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

const addrGenModeNone = 1 // IN6_ADDR_GEN_MODE_NONE

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

func (k *Kernel) addVeth(a dataplane.AddVeth) error {
	ns, err := k.open(a.Namespace)
	if err != nil {
		return err
	}
	defer ns.Close()
	veth, peer := netlink.NewVeth(linkAttrs(a.Link)), linkAttrs(a.Peer)
	veth.PeerName, veth.PeerMTU, veth.PeerHardwareAddr, veth.PeerNamespace = peer.Name, uint32(peer.MTU), peer.HardwareAddr, netlink.NsFd(ns)
	return netlink.LinkAdd(veth)
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
	for _, change := range []struct {
		needed bool
		do     func() error
	}{
		{is.Master != want.Master, func() error { return netlink.LinkSetNoMaster(link) }},
		{is.MAC != want.MAC, func() error { return netlink.LinkSetHardwareAddr(link, want.MAC[:]) }},
		{is.MTU != want.MTU, func() error { return netlink.LinkSetMTU(link, want.MTU) }},
		{is.AutoAddress != want.AutoAddress, func() error { return netlink.LinkSetIP6AddrGenMode(link, addrGenModeNone) }},
		{is.Up && !want.Up, func() error { return netlink.LinkSetDown(link) }},
		{!is.Up && want.Up, func() error { return netlink.LinkSetUp(link) }},
	} {
		if change.needed {
			if err := change.do(); err != nil {
				return err
			}
		}
	}
	return nil
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
