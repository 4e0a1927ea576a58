//go:build linux && kernel

package kernel

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// bridged does the work of an earlier agent for a Network: a bridge with a VXLAN device and
// the router's port.
func (l *lab) bridged(bridge, vxlan, router string, vni int) {
	l.Helper()
	l.in("node1", func() {
		err := errors.Join(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge, MTU: 1450}}),
			netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: vxlan, MTU: 1450}, VxlanId: vni, Port: 4789}))
		for _, port := range []string{vxlan, router} {
			err = errors.Join(err, netlink.LinkSetMasterByIndex(l.link(port), l.index(bridge)))
		}
		if err != nil {
			l.Error(err)
		}
		l.up(bridge)
		l.up(vxlan)
	})
}

// bridgeTable of an earlier agent, shortened: it has chains without a hook, jumps, and sets
// of types that no table has now.
func bridgeTable(port string) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyBridge, Name: dataplane.TableName})
	ports := &nftables.Set{Table: table, Name: "ports", KeyType: nftables.TypeIFName}
	err = c.AddSet(ports, []nftables.SetElement{{Key: append([]byte(port), make([]byte, 16-len(port))...)}})
	pod := c.AddChain(&nftables.Chain{Name: "pod", Table: table})
	prerouting := c.AddChain(&nftables.Chain{Name: "prerouting", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw})
	c.AddRule(&nftables.Rule{Table: table, Chain: prerouting, Exprs: []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Lookup{SourceRegister: 1, SetName: "ports", SetID: ports.ID}, &expr.Verdict{Kind: expr.VerdictJump, Chain: pod.Name}}})
	return errors.Join(err, c.Flush())
}

// Pods that an earlier agent connected by a bridge reach each other and their gateway until
// they end. A bridge without pods is removed at once.
func TestBridgesOfAnEarlierAgent(t *testing.T) { eachFamily(t, earlierAgent) }

func earlierAgent(t *testing.T, f family) {
	l := newLab(t)
	blue := l.network("blue", 1001, f.cidr.String())
	l.network("green", 1002, f.cidr.String())
	l.sync()
	a, b := l.bare("a", blue, f.pod(2), "vetha"), l.bare("b", blue, f.pod(3), "vethb")
	l.bridged("nw1001", "vx1001", "rt1001", 1001)
	l.bridged("nw1002", "vx1002", "rt1002", 1002)
	l.in("node1", func() {
		if err := errors.Join(bridgeTable(a.port), netlink.LinkSetMasterByIndex(l.link(a.port), l.index("nw1001")), netlink.LinkSetMasterByIndex(l.link(b.port), l.index("nw1001"))); err != nil {
			t.Error(err)
		}
	})
	a.reaches(b.ip, "b")
	a.reaches(f.world(), "world")

	const first, empty = "nft replace table inet pod2: ", "ip link del vx1002\nip link del nw1002\n"
	if got := l.sync(); !strings.HasPrefix(got, first) || !strings.HasSuffix(got, " elements\n"+empty) || strings.Count(got, "\n") != 3 {
		t.Errorf("got\n%swant\n%s...\n%s", got, first, empty)
	}
	_, report := l.decide()
	if got, want := strings.Join(append(report.Bridges, l.links()...), " "), "nw1001 nw1001 rt1001 rt1002 vetha vethb vx1001 wn1001 wn1002"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a.reaches(b.ip, "b")
	a.reaches(f.world(), "world")

	l.in("node1", func() {
		if err := errors.Join(netlink.LinkDel(l.link(a.port)), netlink.LinkDel(l.link(b.port))); err != nil {
			t.Error(err)
		}
	})
	const last = "ip link del vx1001\nip link del nw1001\nnft delete table bridge pod2\n"
	if got := l.sync(); !strings.HasPrefix(got, first) || !strings.HasSuffix(got, " elements\n"+last) {
		t.Errorf("got\n%swant\n%s...\n%s", got, first, last)
	}
	if got, want := strings.Join(l.links(), " "), "rt1001 rt1002 wn1001 wn1002"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
