//go:build linux

package kernel

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Drops are the packets that the rules of the node dropped. A new table or a new port
// counts from 0 again.
type Drops struct {
	// Reasons has the comment of each rule as its key.
	Reasons map[string]uint64
	// Ports are the interfaces of pods that sent with another's address.
	Ports map[string]uint64
}

// Drops since the tables were made.
func (k *Kernel) Drops() (Drops, error) {
	drops := Drops{map[string]uint64{}, map[string]uint64{}}
	err := k.in("", func() error {
		return eachTable(func(c *nftables.Conn, table *nftables.Table, chains []*nftables.Chain) error {
			for _, chain := range chains {
				rules, err := c.GetRules(table, chain)
				if err != nil {
					return fmt.Errorf("rules of chain %s: %w", chain.Name, err)
				}
				for _, rule := range rules {
					comment := unix.ByteSliceToString(userData(rule, userdata.TypeComment))
					for _, e := range rule.Exprs {
						if counter, ok := e.(*expr.Counter); ok && comment != "" {
							drops.Reasons[comment] += counter.Packets
						}
					}
				}
			}
			if table.Family != nftables.TableFamilyBridge {
				return nil
			}
			elements, err := c.GetSetElements(&nftables.Set{Table: table, Name: dataplane.DroppedSet})
			if err != nil {
				return fmt.Errorf("elements of set %s: %w", dataplane.DroppedSet, err)
			}
			for _, e := range elements {
				if e.Counter != nil {
					drops.Ports[unix.ByteSliceToString(e.Key)] = e.Counter.Packets
				}
			}
			return nil
		})
	})
	return drops, err
}
