//go:build linux

// Command nodenet does the work of iproute2 for the end-to-end tests, because not every
// machine with a Go compiler has iproute2.
//
//	nodenet bridge NAME                  make a bridge, and set it up
//	nodenet veth NAME BRIDGE PEER PID    make a pair: NAME is a port of the bridge, PEER is in the network namespace of a process
//	nodenet up DEV [ADDRESS...]          set a link up, with addresses such as 172.18.0.11/24
//	nodenet route CIDR GATEWAY
//	nodenet state                        print links and routes, a line each
//	nodenet lacks                        print the first network feature that the kernel lacks, or nothing
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nodenet:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "bridge":
		return bridge(args[1])
	case len(args) == 5 && args[0] == "veth":
		return veth(args[1], args[2], args[3], args[4])
	case len(args) >= 2 && args[0] == "up":
		return up(args[1], args[2:])
	case len(args) == 3 && args[0] == "route":
		return route(args[1], args[2])
	case len(args) == 1 && args[0] == "state":
		return state()
	case len(args) == 1 && args[0] == "lacks":
		fmt.Print(lacks())
		return nil
	}
	return errors.New("usage: nodenet bridge NAME | veth NAME BRIDGE PEER PID | up DEV [ADDRESS...] | route CIDR GATEWAY | state | lacks")
}

func bridge(name string) error {
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
		return fmt.Errorf("make bridge %s: %w", name, err)
	}
	return up(name, nil)
}

func veth(name, bridge, peer, pid string) error {
	id, err := strconv.Atoi(pid)
	if err != nil {
		return fmt.Errorf("%q is not a process id: %w", pid, err)
	}
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", bridge, err)
	}
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name, MasterIndex: master.Attrs().Index},
		PeerName:  peer, PeerNamespace: netlink.NsPid(id),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("make %s with its peer %s in the namespace of process %d: %w", name, peer, id, err)
	}
	return up(name, nil)
}

func up(dev string, addresses []string) error {
	link, err := netlink.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find link %s: %w", dev, err)
	}
	for _, text := range addresses {
		address, err := netlink.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("%q is not an address with a prefix length: %w", text, err)
		}
		if address.IP.To4() == nil {
			address.Flags = unix.IFA_F_NODAD // so the address is usable at once
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("add %s to %s: %w", text, dev, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", dev, err)
	}
	return nil
}

func route(cidr, gateway string) error {
	_, to, err := net.ParseCIDR(cidr)
	if err != nil {
		return fmt.Errorf("%q is not a CIDR: %w", cidr, err)
	}
	if err := netlink.RouteAdd(&netlink.Route{Dst: to, Gw: net.ParseIP(gateway)}); err != nil {
		return fmt.Errorf("add a route to %s by %s: %w", cidr, gateway, err)
	}
	return nil
}

func state() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, l := range links {
		fmt.Println("interface", l.Attrs().Name)
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		fmt.Println("route", r)
	}
	return nil
}
