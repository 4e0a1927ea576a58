package dataplane

import (
	"strconv"
	"strings"

	"github.com/pod2/pod2/pkg/network/multus"
)

// What a Network has on a node, besides its bridge (multus.Bridge). A link's name
// has at most 15 characters, a VNI 8 digits. Whatever has such a name is ours.
const (
	vxlanPrefix  = "vx"
	routerPrefix = "rt"
	wanPrefix    = "wn"
	bridgePrefix = "nw"

	// lan and wan are the ends of rt<vni> and wn<vni> in the router's namespace.
	lan = "lan"
	wan = "wan"

	namespacePrefix = "pod2-"

	// TableName is that of each of our nft tables.
	TableName = "pod2"

	// DroppedSet is that of the bridges' table whose elements, the ports of pods, count
	// what they sent as somebody else.
	DroppedSet = "dropped"

	maxVNI = 1<<24 - 1
)

// fallbacks are tunnels that the kernel makes by itself in each network namespace, down,
// once it knows of their kind, and that nobody can remove.
var fallbacks = []string{"tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "sit0", "ip6tnl0", "ip6gre0", "ip6_vti0"}

func vxlanName(vni int32) string     { return vxlanPrefix + strconv.Itoa(int(vni)) }
func routerName(vni int32) string    { return routerPrefix + strconv.Itoa(int(vni)) }
func wanName(vni int32) string       { return wanPrefix + strconv.Itoa(int(vni)) }
func namespaceName(vni int32) string { return namespacePrefix + strconv.Itoa(int(vni)) }

// OwnLink is the VNI in the name of a link of ours; 0: it is none.
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

// OwnBridge is the VNI in the name of a bridge of ours; 0: it is none.
func OwnBridge(name string) int32 {
	if vni := OwnLink(name); vni != 0 && name == multus.Bridge(vni) {
		return vni
	}
	return 0
}

// OwnNamespace is the VNI in the name of a router's namespace; 0: it is none.
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
