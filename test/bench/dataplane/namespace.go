//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

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

// address adds an address to an interface, and sets it up.
func (n *namespace) address(name string, prefix netip.Prefix) {
	n.do(func() {
		ip := &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
		measure.Check(netlink.AddrAdd(link(name), &netlink.Addr{IPNet: ip, Flags: unix.IFA_F_NODAD}))
		up(link(name))
	})
}

// bridge br0, without rules. It costs as little as a bridge can.
func (n *namespace) bridge() {
	n.do(func() {
		measure.Check(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
		up(link("br0"))
		// Without br_netfilter, the file does not exist and is not needed.
		_ = os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("0"), 0o644)
	})
}

// plug a namespace into br0 of n. Its interface is eth0.
func (n *namespace) plug(to *namespace, mtu int) {
	n.do(func() {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: portOf(to), MTU: mtu, MasterIndex: link("br0").Attrs().Index},
			PeerName: "eth0", PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(int(to.file.Fd()))}
		measure.Check(netlink.LinkAdd(veth))
		up(link(veth.Name))
	})
}

func portOf(n *namespace) string { return "w-" + n.name }

func (n *namespace) defaultRoute(name string, via netip.Addr) {
	n.do(func() {
		measure.Check(netlink.RouteAdd(&netlink.Route{LinkIndex: link(name).Attrs().Index, Gw: via.AsSlice()}))
	})
}

// offload sets features of an interface, as `ethtool -K` does.
func (n *namespace) offload(ctx context.Context, name string, features ...string) {
	n.do(func() {
		out, err := exec.CommandContext(ctx, "ethtool", append([]string{"-K", name}, features...)...).CombinedOutput()
		if err != nil {
			measure.Check(fmt.Errorf("ethtool -K %s %v in %s: %w: %s", name, features, n.name, err, out))
		}
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
