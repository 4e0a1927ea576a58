package dataplane

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pod2/pod2/pkg/network/multus"
)

const (
	// GatewayName is the interface by which packets of all Networks reach the stack of the node, and leave it.
	GatewayName = "pod2gw"
	// GatewayPeer is its other end, which only the programs use.
	GatewayPeer = "pod2gwp"
	// TableName is the name of the agent's nft table.
	TableName = "pod2"

	maxVNI = 1<<24 - 1
)

// leftovers are the prefixes of interfaces that earlier agents made: bridges and VXLAN devices, which connected pods,
// and pairs of veths, which led to routers. A VNI follows. An administrator may use these prefixes with smaller numbers.
var leftovers = []string{"nw", "vx", "rt", "wn"}

// IsLeftover says whether an earlier agent made the interface.
func IsLeftover(name string) bool {
	return slices.ContainsFunc(leftovers, func(prefix string) bool { return hasVNI(name, prefix) })
}

// IsBridge says whether an earlier agent made the interface to connect pods.
func IsBridge(name string) bool { return hasVNI(name, leftovers[0]) }

// IsRouter says whether the network namespace is a router that an earlier agent made.
func IsRouter(namespace string) bool { return hasVNI(namespace, "pod2-") }

// hasVNI says whether the name is the prefix and a VNI.
func hasVNI(name, prefix string) bool {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.Atoi(digits)
	return ok && err == nil && multus.FirstVNI <= n && n <= maxVNI && strconv.Itoa(n) == digits
}
