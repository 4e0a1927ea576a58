//go:build linux

package kernel

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/dataplane"
)

// textOfRule is a kind of user data that nft does not know, and does not show: a rule's
// text. It counts if the rule is what its text says.
const textOfRule userdata.Type = 0xd2

// chunk is how many elements go in one message, which holds 64 KiB.
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

// readTables of the thread's namespace that are ours.
func readTables() ([]dataplane.Table, error) {
	var list []dataplane.Table
	// What somebody put into a table of ours may be more than we can read: it is not as it
	// shall be, then.
	unreadable := func(t *dataplane.Table, err error) {
		list = append(list, dataplane.Table{Family: t.Family, Name: t.Name, Chains: []dataplane.Chain{{Name: "unreadable", Rules: []string{err.Error()}}}})
	}
	err := eachTable(func(c *nftables.Conn, table *nftables.Table, chains []*nftables.Chain) error {
		t := dataplane.Table{Family: familyName(table.Family), Name: table.Name}
		for _, chain := range chains {
			rules, err := c.GetRules(table, chain)
			if err != nil {
				unreadable(&t, err)
				return nil //nolint:nilerr // it is told in the table
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
			return nil //nolint:nilerr // it is told in the table
		}
		slices.SortFunc(sets, func(a, b *nftables.Set) int { return cmp.Compare(a.Name, b.Name) })
		for _, set := range sets {
			elements, err := c.GetSetElements(set)
			if err != nil {
				unreadable(&t, err)
				return nil //nolint:nilerr // it is told in the table
			}
			t.Sets = append(t.Sets, dataplane.Set{Name: set.Name, Type: set.KeyType.Name, Elements: elementTexts(set.KeyType.Name, elements)})
		}
		list = append(list, t)
		return nil
	})
	return list, err
}

// eachTable of ours in the thread's namespace, with its chains in the order of names.
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

// ruleText is what a rule was made from, if it is that still.
func ruleText(family nftables.TableFamily, rule *nftables.Rule) string {
	text := string(userData(rule, textOfRule))
	want, err := compile(family, text)
	if text == "" || err != nil {
		return "not ours"
	}
	if !bytes.Equal(marshal(family, want), marshal(family, rule.Exprs)) {
		return "changed: " + text
	}
	return text
}

// userData of a kind; nil if there is none. It may be somebody else's, and malformed.
func userData(rule *nftables.Rule, kind userdata.Type) []byte {
	for b := rule.UserData; len(b) >= 2 && len(b) >= 2+int(b[1]); b = b[2+int(b[1]):] {
		if userdata.Type(b[0]) == kind {
			return b[2 : 2+int(b[1])]
		}
	}
	return nil
}

// marshal expressions without what counts packets, and without numbers that are of one
// transaction.
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
			return append(b, err.Error()...) // equal to nothing
		}
		b = append(b, one...)
	}
	return b
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
	if c.Hook == "" {
		return chain, nil
	}
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

// replaceTable in one transaction: packets meet the former or the new one.
func replaceTable(t dataplane.Table) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := &nftables.Table{Family: families[t.Family], Name: t.Name}
	c.AddTable(table) // so that there is one to delete
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
	chains := map[string]*nftables.Chain{}
	for _, chain := range t.Chains {
		if chains[chain.Name], err = newChain(table, chain); err != nil {
			return err
		}
		c.AddChain(chains[chain.Name])
	}
	for _, chain := range t.Chains {
		for _, text := range chain.Rules {
			exprs, err := compile(table.Family, text)
			if err != nil {
				return err
			}
			rule := &nftables.Rule{Table: table, Chain: chains[chain.Name], Exprs: exprs}
			if comment := commentOf(text); comment != "" {
				rule.UserData = userdata.AppendString(rule.UserData, userdata.TypeComment, comment)
			}
			rule.UserData = userdata.Append(rule.UserData, textOfRule, []byte(text))
			c.AddRule(rule)
		}
	}
	return flush(c)
}

// flush is the end of a transaction.
func flush(c *nftables.Conn) error {
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables refused the transaction: %w", err)
	}
	return nil
}

// commentOf a rule: what its counter counts.
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

var datatypes = map[string]nftables.SetDatatype{
	"ifname": nftables.TypeIFName, "ether_addr": nftables.TypeEtherAddr, "ipv4_addr": nftables.TypeIPAddr, "ipv6_addr": nftables.TypeIP6Addr, "inet_service": nftables.TypeInetService,
}

func newSet(table *nftables.Table, name, kind string) (*nftables.Set, error) {
	var parts []nftables.SetDatatype
	for part := range strings.SplitSeq(kind, " . ") {
		t, ok := datatypes[part]
		if !ok {
			return nil, fmt.Errorf("set %s: no such type: %q", name, part)
		}
		parts = append(parts, t)
	}
	set := &nftables.Set{Table: table, Name: name, KeyType: parts[0]}
	if len(parts) > 1 {
		set.KeyType = nftables.MustConcatSetType(parts...)
	} else if kind == "ifname" {
		set.KeyByteOrder = binaryutil.NativeEndian // so that nft can show it
	}
	return set, nil
}

// elementsOf hands texts as elements to use, some at a time.
func elementsOf(set *nftables.Set, kind string, texts []string, use func(*nftables.Set, []nftables.SetElement) error) error {
	for some := range slices.Chunk(texts, chunk) {
		var elements []nftables.SetElement
		for _, text := range some {
			key, err := elementKey(kind, text)
			if err != nil {
				return fmt.Errorf("set %s: element %s: %w", set.Name, text, err)
			}
			elements = append(elements, nftables.SetElement{Key: key})
		}
		if err := use(set, elements); err != nil {
			return fmt.Errorf("set %s: %w", set.Name, err)
		}
	}
	return nil
}

// elementKey of an element in nft's words; joined parts take whole registers each.
func elementKey(kind, text string) ([]byte, error) {
	kinds, parts := strings.Split(kind, " . "), strings.Split(text, " . ")
	if len(kinds) != len(parts) {
		return nil, fmt.Errorf("has not as many parts as %s", kind)
	}
	var key []byte
	for i, part := range parts {
		var b []byte
		switch kinds[i] {
		case "ifname":
			name, err := strconv.Unquote(part)
			if err != nil || len(name) >= unix.IFNAMSIZ {
				return nil, fmt.Errorf("%s is no name of an interface", part)
			}
			b = append([]byte(name), make([]byte, unix.IFNAMSIZ-len(name))...)
		case "ether_addr":
			mac, err := dataplane.ParseMAC(part)
			if err != nil {
				return nil, err
			}
			b = mac[:]
		case "inet_service":
			port, err := strconv.ParseUint(part, 10, 16)
			if err != nil {
				return nil, err
			}
			b = binary.BigEndian.AppendUint16(nil, uint16(port))
		default:
			ip, err := netip.ParseAddr(part)
			if err != nil || uint32(ip.BitLen()/8) != datatypes[kinds[i]].Bytes {
				return nil, fmt.Errorf("%s is no %s: %w", part, kinds[i], err)
			}
			b = ip.AsSlice()
		}
		for key = append(key, b...); len(kinds) > 1 && len(key)%4 != 0; {
			key = append(key, 0)
		}
	}
	return key, nil
}

// elementTexts are in order. An element of a set that is not ours to know is its bytes.
func elementTexts(kind string, elements []nftables.SetElement) []string {
	var texts []string
	for _, e := range elements {
		var parts []string
		key := e.Key
		for part := range strings.SplitSeq(kind, " . ") {
			size := int(datatypes[part].Bytes)
			if size == 0 || size > len(key) {
				parts = append(parts, fmt.Sprintf("%x", key))
				break
			}
			switch b := key[:size]; part {
			case "ifname":
				parts = append(parts, strconv.Quote(text(b)))
			case "ether_addr":
				parts = append(parts, net.HardwareAddr(b).String())
			case "inet_service":
				parts = append(parts, strconv.Itoa(int(binary.BigEndian.Uint16(b))))
			default:
				ip, _ := netip.AddrFromSlice(b)
				parts = append(parts, ip.String())
			}
			key = key[min((size+3)&^3, len(key)):]
		}
		texts = append(texts, strings.Join(parts, " . "))
	}
	slices.Sort(texts)
	return texts
}

// Drops are how many packets the rules of the node dropped, by what their comments say
// that they are against. A rule that was made anew counts from 0 again.
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
					comment := text(userData(rule, userdata.TypeComment))
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
