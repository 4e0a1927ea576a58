//go:build linux

package kernel

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// readTables reads the agent's tables in the thread's namespace.
func readTables() ([]dataplane.Table, error) {
	var list []dataplane.Table
	// Another program may have put something into the agent's table that this code cannot
	// read. Such a table never equals the desired one, so it is replaced.
	unreadable := func(t *dataplane.Table, err error) {
		list = append(list, dataplane.Table{Family: t.Family, Name: t.Name, Chains: []dataplane.Chain{{Name: "unreadable", Rules: []string{err.Error()}}}})
	}
	err := eachTable(func(c *nftables.Conn, table *nftables.Table, chains []*nftables.Chain) error {
		t := dataplane.Table{Family: familyName(table.Family), Name: table.Name}
		if table.Flags != 0 { // such as dormant: no packet meets the rules then
			unreadable(&t, errors.New("it has flags"))
			return nil
		}
		for _, chain := range chains {
			rules, err := c.GetRules(table, chain)
			if err != nil {
				unreadable(&t, err)
				return nil //nolint:nilerr // the table holds the error
			}
			read := dataplane.Chain{Name: chain.Name, Hook: hookText(chain)}
			for _, rule := range rules {
				read.Rules = append(read.Rules, ruleText(table.Family, rule))
			}
			t.Chains = append(t.Chains, read)
		}
		sets, err := c.GetSets(table)
		if err != nil {
			unreadable(&t, err)
			return nil //nolint:nilerr // the table holds the error
		}
		slices.SortFunc(sets, func(a, b *nftables.Set) int { return cmp.Compare(a.Name, b.Name) })
		for _, set := range sets {
			elements, err := c.GetSetElements(set)
			if err != nil {
				unreadable(&t, err)
				return nil //nolint:nilerr // the table holds the error
			}
			t.Sets = append(t.Sets, dataplane.Set{Name: set.Name, Type: set.KeyType.Name, Elements: elementTexts(set.KeyType.Name, elements)})
		}
		list = append(list, t)
		return nil
	})
	return list, err
}

// eachTable of the agent in the thread's namespace, with its chains in the order of names.
func eachTable(f func(c *nftables.Conn, table *nftables.Table, chains []*nftables.Chain) error) error {
	c, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	defer func() { _ = c.CloseLasting() }()
	tables, err := c.ListTables()
	if err != nil {
		return fmt.Errorf("list nft tables: %w", err)
	}
	for _, table := range tables {
		if table.Name != dataplane.TableName {
			continue
		}
		chains, err := c.ListChainsOfTableFamily(table.Family)
		if err != nil {
			return fmt.Errorf("list nft chains: %w", err)
		}
		chains = slices.DeleteFunc(chains, func(chain *nftables.Chain) bool { return chain.Table.Name != table.Name })
		slices.SortFunc(chains, func(a, b *nftables.Chain) int { return cmp.Compare(a.Name, b.Name) })
		if err := f(c, table, chains); err != nil {
			return fmt.Errorf("read nft table %s %s: %w", familyName(table.Family), table.Name, err)
		}
	}
	return nil
}

// ruleText is the text that a rule was made from, if the rule still matches it.
func ruleText(family nftables.TableFamily, rule *nftables.Rule) string {
	text := string(userData(rule, textOfRule))
	want, err := compile(text)
	if text == "" || err != nil {
		return "not ours"
	}
	if !bytes.Equal(marshal(family, want), marshal(family, rule.Exprs)) {
		return "changed: " + text
	}
	return text
}

// userData of a kind; nil if there is none. Another program may have written it, malformed.
func userData(rule *nftables.Rule, kind userdata.Type) []byte {
	for b := rule.UserData; len(b) >= 2 && len(b) >= 2+int(b[1]); b = b[2+int(b[1]):] {
		if userdata.Type(b[0]) == kind {
			return b[2 : 2+int(b[1])]
		}
	}
	return nil
}

// marshal expressions without the values of counters, and without numbers that belong to
// one transaction.
func marshal(family nftables.TableFamily, list []expr.Any) []byte {
	var b []byte
	for _, e := range list {
		switch is := e.(type) {
		case *expr.Counter:
			e = &expr.Counter{}
		case *expr.Lookup:
			e = &expr.Lookup{SourceRegister: is.SourceRegister, DestRegister: is.DestRegister, IsDestRegSet: is.IsDestRegSet, SetName: is.SetName, Invert: is.Invert}
		}
		one, err := expr.Marshal(byte(family), e)
		if err != nil {
			return append(b, err.Error()...) // never equal to another rule
		}
		b = append(b, one...)
	}
	return b
}
