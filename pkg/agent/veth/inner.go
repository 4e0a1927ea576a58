//go:build linux

package veth

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/iface"
	"github.com/pod2/pod2/pkg/agent/sysctl"
)

// configure the pod's end of a new pair.
func (p Pair) configure(ns *os.File) error {
	return iface.Inside(netns.NsHandle(ns.Fd()), func() error {
		inner, err := netlink.LinkByName(p.Interface)
		if err != nil {
			return fmt.Errorf("read the pod's end: %w", err)
		}
		if p.Address.Addr().Is6() {
			if err := enableIPv6(p.Interface); err != nil {
				return err
			}
		}
		// No other host has the address, so there is nothing to detect.
		if err := netlink.AddrAdd(inner, &netlink.Addr{IPNet: iface.IPNet(p.Address), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("add the address %s: %w", p.Address, err)
		}
		if err := netlink.LinkSetUp(inner); err != nil {
			return fmt.Errorf("set the pod's end up: %w", err)
		}
		for _, destination := range p.Routes {
			route := &netlink.Route{LinkIndex: inner.Attrs().Index, Dst: iface.IPNet(destination), Src: p.source(), Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_LINK}
			if err := netlink.RouteAppend(route); err != nil {
				return fmt.Errorf("add the route to %s: %w", destination, err)
			}
		}
		return nil
	})
}

// source address of routes; the kernel takes none for IPv6.
func (p Pair) source() net.IP {
	if p.Address.Addr().Is6() {
		return nil
	}
	return p.Address.Addr().AsSlice()
}

// enableIPv6 on an interface of a pod whose runtime turned IPv6 off. It writes only if that is so.
func enableIPv6(name string) error {
	disabled := "net/ipv6/conf/" + name + "/disable_ipv6"
	value, err := sysctl.Read(disabled)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the kernel of this node has no IPv6: %w", err)
	}
	if err == nil && value != "0" {
		err = sysctl.Write(disabled, "0")
	}
	if err != nil {
		return fmt.Errorf("turn on IPv6: %w", err)
	}
	return nil
}

// differsIP compares the address and the routes of the pod's end. The pod may have more of both.
func (p Pair) differsIP(inner netlink.Link) (string, error) {
	family := netlink.FAMILY_V4
	if p.Address.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	addresses, err := netlink.AddrList(inner, family)
	if err != nil {
		return "", fmt.Errorf("read the addresses of %s in the pod: %w", p.Interface, err)
	}
	if !slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return iface.Prefix(a.IPNet) == p.Address }) {
		return fmt.Sprintf("it does not have the address %s", p.Address), nil
	}
	routes, err := netlink.RouteList(inner, family)
	if err != nil {
		return "", fmt.Errorf("read the routes of %s in the pod: %w", p.Interface, err)
	}
	for _, destination := range append([]netip.Prefix{p.Address.Masked()}, p.Routes...) {
		if destination.IsSingleIP() {
			continue // the kernel makes no such route
		}
		if !slices.ContainsFunc(routes, func(r netlink.Route) bool { return iface.Prefix(r.Dst) == destination && r.Gw == nil }) {
			return fmt.Sprintf("it has no route to %s", destination), nil
		}
	}
	return "", nil
}
