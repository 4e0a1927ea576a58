//go:build linux

// Package iface has the functions for interfaces and network namespaces that several packages of the agent use.
package iface

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// List the interfaces of the node. The kernel interrupts a list if interfaces change meanwhile.
func List() ([]netlink.Link, error) {
	links, err := netlink.LinkList()
	for try := 0; errors.Is(err, netlink.ErrDumpInterrupted) && try < 5; try++ {
		links, err = netlink.LinkList()
	}
	if err != nil {
		return nil, fmt.Errorf("list the interfaces of the node: %w", err)
	}
	return links, nil
}

// ByName returns nil if there is none.
func ByName(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) || errors.Is(err, unix.ENODEV) {
		return nil, nil //nolint:nilnil // both results have a meaning
	}
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", name, err)
	}
	return link, nil
}

// Inside runs f on a thread that is in the namespace. The thread ends with f.
func Inside(ns netns.NsHandle, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, because no other goroutine may use the thread
		if err := netns.Set(ns); err != nil {
			result <- fmt.Errorf("enter the network namespace: %w", err)
			return
		}
		result <- f()
	}()
	return <-result
}

// IPNet is the prefix as netlink takes it.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Prefix is the opposite of IPNet. It is zero for nil.
func Prefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(ip.Unmap(), bits)
}
