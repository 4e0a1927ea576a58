package dataplane

import (
	"strconv"

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

// leftovers are the prefixes of interfaces that earlier agents made. A VNI follows. Bridges and VXLAN devices
// connected pods. Pairs of veths led to routers.
var leftovers = []string{"nw", "vx", "rt", "wn"}

// IsLeftover says whether an earlier agent made the interface.
func IsLeftover(name string) bool {
	for _, prefix := range leftovers {
		if len(name) > len(prefix) && name[:len(prefix)] == prefix && isVNI(name[len(prefix):]) {
			return true
		}
	}
	return false
}

// IsBridge says whether an earlier agent made the interface to connect pods.
func IsBridge(name string) bool {
	return len(name) > 2 && isVNI(name[2:]) && name == multus.Bridge(parse(name[2:]))
}

// IsRouter says whether the network namespace is a router that an earlier agent made.
func IsRouter(namespace string) bool {
	const prefix = "pod2-"
	return len(namespace) > len(prefix) && namespace[:len(prefix)] == prefix && isVNI(namespace[len(prefix):])
}

func isVNI(digits string) bool { return parse(digits) != 0 }

// parse a VNI; 0 if it is none.
func parse(digits string) int32 {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n <= 0 || n > maxVNI || strconv.Itoa(int(n)) != digits {
		return 0
	}
	return int32(n)
}
