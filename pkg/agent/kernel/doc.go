//go:build linux

// Package kernel reads and changes the kernel of a node: it reads the agent's part of the
// state into a dataplane.Host, and executes a dataplane.Plan. It decides nothing.
//
// It uses netlink through vishvananda/netlink and google/nftables. Writing (entries.go) and
// reading (read.go) bridge entries and neighbours use only the first library's messages: its
// functions are too slow for tens of thousands. The package runs no programs.
package kernel
