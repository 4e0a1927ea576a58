//go:build linux

// Package kernel is the room that touches the kernel of a node: it reads what there is
// of ours into a dataplane.Host, and does what a dataplane.Plan says. It decides nothing.
//
// It speaks netlink, by vishvananda/netlink and google/nftables. Two things it does with
// the messages of the first rather than with its functions, since these are too slow for
// tens of thousands: to write bridge entries and neighbours (entries.go), and to read
// them (read.go). Nothing is run but system calls.
package kernel
