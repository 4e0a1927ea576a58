//go:build linux

package kernel

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/ipam"
)

const family = nftables.TableFamilyINet

// content of a table as the library has it, compiled or read. The lists are in the order of names.
type content struct {
	flags    uint32
	chains   []*nftables.Chain
	rules    map[string][]*nftables.Rule // by chain
	sets     []*nftables.Set
	elements map[string][]nftables.SetElement // by set
}

// table replaces the whole table in one transaction if it differs: each packet meets either the old or the new one.
func (w *worker) table(k *Kernel, want dataplane.Table) {
	wanted, err := compileTable(want)
	if w.err != nil || err != nil {
		w.err = errors.Join(w.err, err)
		return
	}
	is, err := readTable()
	differs := err != nil || is.fingerprint() != wanted.fingerprint() // of another program's content, the library may read nothing
	w.do(differs, dataplane.KindTable, "nft replace table inet "+dataplane.TableName, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if err := wanted.replace(); err != nil {
			return err
		}
		is.count(k.past)
		return nil
	})
}

func compileTable(t dataplane.Table) (content, error) {
	c := content{rules: map[string][]*nftables.Rule{}, elements: map[string][]nftables.SetElement{}}
	table := &nftables.Table{Family: family, Name: dataplane.TableName}
	for _, s := range t.Sets {
		c.sets = append(c.sets, &nftables.Set{Table: table, Name: s.Name, KeyType: setTypes[s.Type], Interval: s.Interval})
		for _, e := range s.Elements {
			c.elements[s.Name] = append(c.elements[s.Name], nftables.SetElement{Key: elementKey(setTypes[s.Type], e)})
		}
		for _, p := range s.Prefixes {
			c.elements[s.Name] = append(c.elements[s.Name], nftables.SetElement{Key: p.Addr().AsSlice()})
			if next := ipam.LastOf(p).Next(); next.IsValid() {
				c.elements[s.Name] = append(c.elements[s.Name], nftables.SetElement{Key: next.AsSlice(), IntervalEnd: true})
			}
		}
	}
	for _, wanted := range t.Chains {
		chain := newChain(table, wanted)
		c.chains = append(c.chains, chain)
		for _, text := range wanted.Rules {
			text, comment, commented := strings.Cut(text, " comment ")
			exprs, err := compile(text)
			if err != nil {
				return c, err
			}
			rule := &nftables.Rule{Table: table, Chain: chain, Exprs: exprs}
			if commented {
				rule.UserData = userdata.AppendString(nil, userdata.TypeComment, strings.Trim(comment, `"`))
			}
			c.rules[chain.Name] = append(c.rules[chain.Name], rule)
		}
	}
	c.sort()
	return c, nil
}

func (c content) sort() {
	slices.SortFunc(c.chains, func(a, b *nftables.Chain) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(c.sets, func(a, b *nftables.Set) int { return cmp.Compare(a.Name, b.Name) })
	for _, elements := range c.elements {
		slices.SortFunc(elements, func(a, b nftables.SetElement) int { // an interval may begin where another ends
			return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(ends(b), ends(a)))
		})
	}
}

func ends(e nftables.SetElement) int {
	if e.IntervalEnd {
		return 1
	}
	return 0
}

// setTypes that package dataplane uses.
var setTypes = map[string]nftables.SetDatatype{
	"ipv4_addr":                nftables.TypeIPAddr,
	"ipv6_addr":                nftables.TypeIP6Addr,
	"ipv4_addr . inet_service": nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService),
	"ipv6_addr . inet_service": nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeInetService),
}

// elementKey is the address, and the port if the type has one. Each joined part takes whole registers.
func elementKey(kind nftables.SetDatatype, e netip.AddrPort) []byte {
	key := e.Addr().AsSlice()
	if len(key) < int(kind.Bytes) {
		key = append(binary.BigEndian.AppendUint16(key, e.Port()), 0, 0)
	}
	return key
}

var hooks = []string{"prerouting", "input", "forward", "output", "postrouting"}

func newChain(table *nftables.Table, c dataplane.Chain) *nftables.Chain {
	if c.Type == "" {
		return &nftables.Chain{Name: c.Name, Table: table}
	}
	policy := nftables.ChainPolicyAccept
	return &nftables.Chain{Name: c.Name, Table: table, Type: nftables.ChainType(c.Type), Policy: &policy,
		Priority: nftables.ChainPriorityRef(nftables.ChainPriority(c.Priority)),
		Hooknum:  nftables.ChainHookRef(nftables.ChainHook(slices.Index(hooks, c.Name)))}
}

// replace the table by this one.
func (c content) replace() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := &nftables.Table{Family: family, Name: dataplane.TableName}
	conn.AddTable(table) // because DelTable needs one
	conn.DelTable(table)
	conn.AddTable(table)
	for _, set := range c.sets {
		if err := conn.AddSet(set, nil); err != nil {
			return fmt.Errorf("set %s: %w", set.Name, err)
		}
		const many = 400 // in one message, which holds 64 KiB
		for some := range slices.Chunk(c.elements[set.Name], many) {
			if err := conn.SetAddElements(set, some); err != nil {
				return fmt.Errorf("set %s: %w", set.Name, err)
			}
		}
	}
	for _, chain := range c.chains {
		conn.AddChain(chain)
	}
	for _, chain := range c.chains {
		for _, rule := range c.rules[chain.Name] {
			conn.AddRule(rule)
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nftables refused the transaction: %w", err)
	}
	return nil
}

// readTable reads the agent's table. It is empty if there is none.
func readTable() (content, error) {
	c := content{rules: map[string][]*nftables.Rule{}, elements: map[string][]nftables.SetElement{}}
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return c, fmt.Errorf("open nftables: %w", err)
	}
	defer func() { _ = conn.CloseLasting() }()
	tables, err := conn.ListTablesOfFamily(family)
	if err != nil {
		return c, fmt.Errorf("list nft tables: %w", err)
	}
	i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == dataplane.TableName })
	if i < 0 {
		return c, nil
	}
	table := tables[i]
	c.flags = table.Flags // such as dormant: no packet meets the rules then
	chains, err := conn.ListChainsOfTableFamily(family)
	if err != nil {
		return c, fmt.Errorf("list nft chains: %w", err)
	}
	c.chains = slices.DeleteFunc(chains, func(chain *nftables.Chain) bool { return chain.Table.Name != table.Name })
	for _, chain := range c.chains {
		if c.rules[chain.Name], err = conn.GetRules(table, chain); err != nil {
			return c, fmt.Errorf("rules of chain %s: %w", chain.Name, err)
		}
	}
	if c.sets, err = conn.GetSets(table); err != nil {
		return c, fmt.Errorf("list nft sets: %w", err)
	}
	for _, set := range c.sets {
		if c.elements[set.Name], err = conn.GetSetElements(set); err != nil {
			return c, fmt.Errorf("elements of set %s: %w", set.Name, err)
		}
	}
	c.sort()
	return c, nil
}

// fingerprint is the same for tables with the same content, apart from the values of counters.
func (c content) fingerprint() string {
	var b bytes.Buffer
	fmt.Fprintln(&b, "flags", c.flags)
	for _, chain := range c.chains {
		fmt.Fprint(&b, "chain ", chain.Name, " ", chain.Type)
		if chain.Hooknum != nil && chain.Priority != nil && chain.Policy != nil {
			fmt.Fprint(&b, " ", *chain.Hooknum, " ", *chain.Priority, " ", *chain.Policy)
		}
		for _, rule := range c.rules[chain.Name] {
			fmt.Fprintf(&b, "\n%x %s", marshal(rule.Exprs), comment(rule))
		}
		fmt.Fprintln(&b)
	}
	for _, set := range c.sets {
		fmt.Fprint(&b, "set ", set.Name, " ", set.KeyType.Name, " ", set.IsMap, set.Interval, set.HasTimeout)
		for _, e := range c.elements[set.Name] {
			fmt.Fprintf(&b, " %x %t", e.Key, e.IntervalEnd)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// marshal expressions without the values of counters, without numbers that belong to one transaction, and without
// expressions that the library writes and does not read.
func marshal(list []expr.Any) []byte {
	var b []byte
	for _, e := range list {
		switch is := e.(type) {
		case *expr.Rt, *expr.Byteorder:
			continue
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

// comment of a rule names the packets that its counter counts. Another program may have written it, malformed.
func comment(rule *nftables.Rule) string {
	for b := rule.UserData; len(b) >= 2 && len(b) >= 2+int(b[1]); b = b[2+int(b[1]):] {
		if userdata.Type(b[0]) == userdata.TypeComment {
			return unix.ByteSliceToString(b[2 : 2+int(b[1])])
		}
	}
	return ""
}

// count adds the packets that the rules dropped, by comment.
func (c content) count(drops map[string]uint64) {
	for _, rules := range c.rules {
		for _, rule := range rules {
			for _, e := range rule.Exprs {
				if counter, ok := e.(*expr.Counter); ok && comment(rule) != "" {
					drops[comment(rule)] += counter.Packets
				}
			}
		}
	}
}

// Drops are the packets that the rules of the node dropped, by the comment of each rule.
func (k *Kernel) Drops() (map[string]uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	is, err := readTable()
	if err != nil {
		return nil, err
	}
	drops := maps.Clone(k.past)
	is.count(drops)
	return drops, nil
}

// removeTables with the agent's name: those of other families, which earlier agents made, and perhaps its own.
func (w *worker) removeTables(own bool) {
	conn, err := nftables.New()
	if err != nil {
		w.err = errors.Join(w.err, fmt.Errorf("open nftables: %w", err))
		return
	}
	tables, err := conn.ListTables()
	if err != nil {
		w.err = errors.Join(w.err, fmt.Errorf("list nft tables: %w", err))
	}
	for _, t := range tables {
		needed := t.Name == dataplane.TableName && (own || t.Family != family)
		w.do(needed, dataplane.KindTable, "nft delete table "+familyName(t.Family)+" "+t.Name, func() error {
			conn.DelTable(t)
			if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("nftables refused the transaction: %w", err)
			}
			return nil
		})
	}
}

func familyName(f nftables.TableFamily) string {
	names := map[nftables.TableFamily]string{nftables.TableFamilyINet: "inet", nftables.TableFamilyBridge: "bridge", nftables.TableFamilyIPv4: "ip",
		nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyARP: "arp", nftables.TableFamilyNetdev: "netdev"}
	return cmp.Or(names[f], strconv.Itoa(int(f)))
}
