//go:build linux

// Package kernel brings the kernel of a node to the state that package dataplane wants: the
// pair of interfaces by which packets leave Networks, its routes, and the nft table. It also adds
// routes in pods, and removes the things of earlier agents.
//
// It uses netlink through vishvananda/netlink and google/nftables. It runs no programs.
// Its functions act in the network namespace of the calling thread.
package kernel
