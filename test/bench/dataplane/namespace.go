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
	"github.com/pod2/pod2/test/bench/measure"
)

// namespace is a network namespace that exists as long as its file is open.
type namespace struct {
	name string
	file *os.File
}

func newNamespace(name string) *namespace {
	n := &namespace{name: name}
	onThread(func() {
		measure.Check(unix.Unshare(unix.CLONE_NEWNET))
		n.file = measure.Must(os.Open("/proc/thread-self/ns/net"))
		up(link("lo"))
	})
	return n
}

// path of the namespace for other code of this process.
func (n *namespace) path() string { return fmt.Sprintf("/proc/self/fd/%d", n.file.Fd()) }

// do f on a thread that is in the namespace and ends with f. Everything that f opens or
// starts stays in the namespace.
func (n *namespace) do(f func()) {
	onThread(func() {
		measure.Check(unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET))
		f()
	})
}

func onThread(f func()) {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, because no other goroutine may use the thread
		result <- measure.Try(f)
	}()
	measure.Check(<-result)
}

// link in the namespace of the thread.
func link(name string) netlink.Link { return measure.Must(netlink.LinkByName(name)) }

func up(l netlink.Link) { measure.Check(netlink.LinkSetUp(l)) }

func (n *namespace) has(name string) bool {
	return measure.Try(func() { n.do(func() { link(name) }) }) == nil
}

func (n *namespace) sysctl(name, value string) error {
	return measure.Try(func() {
		n.do(func() {
			measure.Check(os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0o644))
		})
	})
}

// address adds an address to an interface, and sets it up.
func (n *namespace) address(name string, prefix netip.Prefix) {
	n.do(func() {
		ip := &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
		measure.Check(netlink.AddrAdd(link(name), &netlink.Addr{IPNet: ip, Flags: unix.IFA_F_NODAD}))
		up(link(name))
	})
}

func (n *namespace) bridge(name string, mtu int) {
	n.do(func() {
		err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu}})
		if !os.IsExist(err) {
			measure.Check(err)
		}
		up(link(name))
	})
}

// plug makes a port on a bridge of n. Its other end is the interface with this name in to.
func (n *namespace) plug(bridge, port string, to *namespace, name string, mac dataplane.MAC, mtu int) {
	n.do(func() {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port, MTU: mtu, MasterIndex: link(bridge).Attrs().Index},
			PeerName: name, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(int(to.file.Fd()))}
		if (mac != dataplane.MAC{}) {
			veth.PeerHardwareAddr = mac[:]
		}
		measure.Check(netlink.LinkAdd(veth))
		up(link(port))
	})
}

func (n *namespace) unplug(port string) {
	n.do(func() { measure.Check(netlink.LinkDel(link(port))) })
}

func (n *namespace) defaultRoute(name string, via netip.Addr) {
	n.do(func() {
		measure.Check(netlink.RouteAdd(&netlink.Route{LinkIndex: link(name).Attrs().Index, Gw: via.AsSlice()}))
	})
}

// listen in the namespace.
func (n *namespace) listen(ctx context.Context, address string) (l net.Listener) {
	n.do(func() { l = measure.Must(new(net.ListenConfig).Listen(ctx, "tcp", address)) })
	return l
}

// dial from the namespace.
func (n *namespace) dial(ctx context.Context, network, address string) net.Conn {
	return measure.Must(n.tryDial(ctx, network, address))
}

func (n *namespace) tryDial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = measure.Try(func() { n.do(func() { c = measure.Must(new(net.Dialer).DialContext(ctx, network, address)) }) })
	return c, err
}
