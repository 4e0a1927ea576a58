//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// textOfRule is a kind of user data that nft neither knows nor shows: the text of a rule.
// The text counts only if the rule still matches it.
const textOfRule userdata.Type = 0xd2

// chunk is the number of elements in one message, which holds 64 KiB.
const chunk = 400

var families = map[string]nftables.TableFamily{
	"inet": nftables.TableFamilyINet, "bridge": nftables.TableFamilyBridge, "ip": nftables.TableFamilyIPv4, "ip6": nftables.TableFamilyIPv6,
	"arp": nftables.TableFamilyARP, "netdev": nftables.TableFamilyNetdev,
}

func familyName(f nftables.TableFamily) string {
	for name, family := range families {
		if family == f {
			return name
		}
	}
	return ""
}

var hooks = []string{"prerouting", "input", "forward", "output", "postrouting"}

func hookText(c *nftables.Chain) string {
	if c.Hooknum == nil || c.Priority == nil || int(*c.Hooknum) >= len(hooks) {
		return ""
	}
	policy := "accept"
	if c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
		policy = "drop"
	}
	return fmt.Sprintf("type %s hook %s priority %d; policy %s;", c.Type, hooks[*c.Hooknum], *c.Priority, policy)
}

func newChain(table *nftables.Table, c dataplane.Chain) (*nftables.Chain, error) {
	chain := &nftables.Chain{Name: c.Name, Table: table}
	var kind, hook, policy string
	var priority int32
	if _, err := fmt.Sscanf(c.Hook, "type %s hook %s priority %d; policy %s", &kind, &hook, &priority, &policy); err != nil {
		return nil, fmt.Errorf("chain %s: hook %q: %w", c.Name, c.Hook, err)
	}
	decision := nftables.ChainPolicyAccept
	if strings.TrimSuffix(policy, ";") == "drop" {
		decision = nftables.ChainPolicyDrop
	}
	chain.Type, chain.Policy = nftables.ChainType(kind), &decision
	chain.Hooknum = nftables.ChainHookRef(nftables.ChainHook(slices.Index(hooks, hook)))
	chain.Priority = nftables.ChainPriorityRef(nftables.ChainPriority(priority))
	return chain, nil
}

// replaceTable in one transaction: each packet meets either the old or the new table.
func replaceTable(t dataplane.Table) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := &nftables.Table{Family: families[t.Family], Name: t.Name}
	c.AddTable(table) // because DelTable needs one
	c.DelTable(table)
	c.AddTable(table)
	for _, s := range t.Sets {
		set, err := newSet(table, s.Name, s.Type)
		if err != nil {
			return err
		}
		if err := c.AddSet(set, nil); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
		if err := elementsOf(set, s.Type, s.Elements, c.SetAddElements); err != nil {
			return err
		}
	}
	for _, wanted := range t.Chains {
		chain, err := newChain(table, wanted)
		if err != nil {
			return err
		}
		c.AddChain(chain)
		for _, text := range wanted.Rules {
			exprs, err := compile(text)
			if err != nil {
				return err
			}
			rule := &nftables.Rule{Table: table, Chain: chain, Exprs: exprs}
			if comment := commentOf(text); comment != "" {
				rule.UserData = userdata.AppendString(rule.UserData, userdata.TypeComment, comment)
			}
			rule.UserData = userdata.Append(rule.UserData, textOfRule, []byte(text))
			c.AddRule(rule)
		}
	}
	return flush(c)
}

// flush commits a transaction.
func flush(c *nftables.Conn) error {
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables refused the transaction: %w", err)
	}
	return nil
}

// commentOf a rule names the packets that its counter counts.
func commentOf(rule string) string {
	_, quoted, ok := strings.Cut(rule, " comment ")
	if !ok {
		return ""
	}
	comment, err := strconv.Unquote(quoted)
	if err != nil {
		return ""
	}
	return comment
}

func delTable(family, name string) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	c.DelTable(&nftables.Table{Family: families[family], Name: name})
	if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("nftables refused the transaction: %w", err)
	}
	return nil
}

// changeElements in one transaction.
func changeElements(a dataplane.ChangeElements) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := &nftables.Table{Family: families[a.Family], Name: a.Table}
	for _, change := range a.Changes {
		set, err := newSet(table, change.Set, change.Type)
		if err != nil {
			return err
		}
		if err := elementsOf(set, change.Type, change.Del, c.SetDeleteElements); err != nil {
			return err
		}
		if err := elementsOf(set, change.Type, change.Add, c.SetAddElements); err != nil {
			return err
		}
	}
	return flush(c)
}
