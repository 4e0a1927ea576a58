//go:build linux

// Package kernel is the room that touches the kernel of a node: it reads what there is
// of ours into a dataplane.Host, and does what a dataplane.Plan says. It decides nothing.
//
// It speaks netlink: rtnetlink (links, addresses, routes, entries of bridges and VXLAN
// devices, neighbours) by messages of its own, so that thousands go in few system calls,
// and nftables by google/nftables. Nothing is run but system calls.
package kernel
