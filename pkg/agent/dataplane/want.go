package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Transit6 has the transit addresses of pods of IPv6 Networks. Their last 32 bits are the index of the pod's interface.
var Transit6 = netip.MustParsePrefix("fd64:706f:6432::/96")

// Host is the desired state of the node, apart from programs and their tables.
type Host struct {
	// Transits lead to GatewayName. The node forwards packets of their families.
	Transits []netip.Prefix
	Table    Table
}

// Equal says whether both are the same.
func (h Host) Equal(other Host) bool {
	return slices.Equal(h.Transits, other.Transits) && h.Table.String() == other.Table.String()
}

// Step is one change of the kernel. Text is the command of iproute2 or nft that does the same.
type Step struct{ Kind, Text string }

// Kinds of steps.
const (
	KindLink   = "link"
	KindRoute  = "route"
	KindSysctl = "sysctl"
	KindTable  = "table"
)

// Kinds of steps.
var Kinds = []string{KindLink, KindRoute, KindSysctl, KindTable}

// Plan is a list of steps.
type Plan []Step

// String has one step a line, in order.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.Text + "\n")
	}
	return b.String()
}

// Want returns the desired state of the kernel. It fails while the address of this node is unknown; then the
// kernel must stay unchanged.
func Want(s State) (Host, error) {
	if len(s.Self) == 0 {
		return Host{}, fmt.Errorf("node %s: the Node has no address that other nodes can send to; the data plane stays unchanged", s.Node)
	}
	host := Host{Table: table(s)}
	for _, transit := range []netip.Prefix{s.Transit, Transit6} {
		if slices.ContainsFunc(s.Networks, func(n Network) bool {
			return n.Egress && n.Gateway.IsValid() && n.Gateway.Is4() == transit.Addr().Is4()
		}) {
			host.Transits = append(host.Transits, transit)
		}
	}
	return host, nil
}
