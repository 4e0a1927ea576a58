//go:build linux

// Package kernel reads and changes the kernel of a node: it reads the agent's part of the
// state into a dataplane.Host, and executes a dataplane.Plan. It decides nothing.
//
// It uses netlink through vishvananda/netlink and google/nftables. It runs no programs.
package kernel
