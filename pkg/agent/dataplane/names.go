package dataplane

import (
	"strconv"
	"strings"

	"github.com/pod2/pod2/pkg/network/multus"
)

// Names of a Network's things on a node. The name of a link has at most 15 characters, a VNI
// at most 8 digits. The agent owns everything that has such a name.
const (
	routerPrefix = "rt"
	wanPrefix    = "wn"

	// An earlier agent made these.
	vxlanPrefix  = "vx"
	bridgePrefix = "nw" // as in multus.Bridge

	// lan and wan are the ends of rt<vni> and wn<vni> in the router's namespace.
	lan = "lan"
	wan = "wan"

	namespacePrefix = "pod2-"

	// TableName is the name of each of the agent's nft tables.
	TableName = "pod2"

	maxVNI = 1<<24 - 1
)

// fallbacks are tunnels that the kernel makes by itself in each network namespace once it
// has loaded their driver. They are down and cannot be removed.
var fallbacks = []string{"tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "sit0", "ip6tnl0", "ip6gre0", "ip6_vti0"}

func vxlanName(vni int32) string { return vxlanPrefix + strconv.Itoa(int(vni)) }

// RouterName is the node's end of the pair that leads to the router of a Network.
func RouterName(vni int32) string    { return routerPrefix + strconv.Itoa(int(vni)) }
func wanName(vni int32) string       { return wanPrefix + strconv.Itoa(int(vni)) }
func namespaceName(vni int32) string { return namespacePrefix + strconv.Itoa(int(vni)) }

// OwnLink returns the VNI in the name of one of the agent's links; 0 for any other link.
func OwnLink(name string) int32 {
	if len(name) < 3 {
		return 0
	}
	switch name[:2] {
	case bridgePrefix, vxlanPrefix, routerPrefix, wanPrefix:
		return parseVNI(name[2:])
	}
	return 0
}

// OwnBridge returns the VNI in the name of an earlier agent's bridge; 0 for any other link.
func OwnBridge(name string) int32 {
	if vni := OwnLink(name); vni != 0 && name == multus.Bridge(vni) {
		return vni
	}
	return 0
}

// OwnNamespace returns the VNI in the name of a router's namespace; 0 for any other name.
func OwnNamespace(name string) int32 {
	digits, ok := strings.CutPrefix(name, namespacePrefix)
	if !ok {
		return 0
	}
	return parseVNI(digits)
}

func parseVNI(digits string) int32 {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n <= 0 || n > maxVNI || strconv.Itoa(int(n)) != digits {
		return 0
	}
	return int32(n)
}
