//go:build linux

package kernel

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Drops are the packets that the rules of the node dropped, by the comment of each rule. A new
// table counts from 0 again.
func (k *Kernel) Drops() (map[string]uint64, error) {
	drops := map[string]uint64{}
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
							drops[comment] += counter.Packets
						}
					}
				}
			}
			return nil
		})
	})
	return drops, err
}
