//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// namespace is a network namespace that is there as long as its file is open.
type namespace struct {
	name string
	file *os.File
}

func newNamespace(name string) (*namespace, error) {
	n := &namespace{name: name}
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace %s: %w", name, err)
		}
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, err
	}
	return n, n.up("lo")
}

func (n *namespace) close() { _ = n.file.Close() }

// path is where others in this process find it.
func (n *namespace) path() string { return fmt.Sprintf("/proc/self/fd/%d", n.file.Fd()) }

// do f on a thread that is in the namespace and ends with f. What f opens or starts stays
// in the namespace.
func (n *namespace) do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", n.name, err)
		}
		if err := f(); err != nil {
			return fmt.Errorf("in network namespace %s: %w", n.name, err)
		}
		return nil
	})
}

func onThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others
		result <- f()
	}()
	return <-result
}

func (n *namespace) up(link string) error {
	return n.do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
}

func (n *namespace) has(link string) bool {
	return n.do(func() error {
		_, err := netlink.LinkByName(link)
		return err
	}) == nil
}

func (n *namespace) sysctl(name, value string) error {
	return n.do(func() error {
		return os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0o644)
	})
}

// address puts one on an interface, and sets that up.
func (n *namespace) address(link string, prefix netip.Prefix) error {
	return n.do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		ip := &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
		if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: ip, Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("put %s on %s: %w", prefix, link, err)
		}
		return netlink.LinkSetUp(l)
	})
}

func (n *namespace) bridge(name string, mtu int) error {
	return n.do(func() error {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu}}); err != nil && !os.IsExist(err) {
			return fmt.Errorf("make bridge %s: %w", name, err)
		}
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
}

// plug makes port on a bridge of n, whose other end is the interface of that name in to.
func (n *namespace) plug(bridge, port string, to *namespace, name string, mac dataplane.MAC, mtu int) error {
	return n.do(func() error {
		br, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port, MTU: mtu, MasterIndex: br.Attrs().Index},
			PeerName: name, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(int(to.file.Fd()))}
		if (mac != dataplane.MAC{}) {
			veth.PeerHardwareAddr = mac[:]
		}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("plug %s into %s: %w", to.name, bridge, err)
		}
		l, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
}

func (n *namespace) unplug(port string) error {
	return n.do(func() error {
		l, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
}

func (n *namespace) defaultRoute(link string, via netip.Addr) error {
	return n.do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: via.AsSlice()})
	})
}

// listen in the namespace.
func (n *namespace) listen(ctx context.Context, address string) (l net.Listener, err error) {
	err = n.do(func() (err error) {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
		return err
	})
	return l, err
}

// dial from the namespace.
func (n *namespace) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = n.do(func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}
