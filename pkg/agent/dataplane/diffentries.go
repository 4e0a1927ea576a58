package dataplane

import (
	"slices"

	"github.com/pod2/pod2/pkg/network/multus"
)

// fdb plans the entries of a Network. A replacement for the same device and MAC address
// comes first. A VXLAN device can have several destinations for one MAC address; a
// replacement takes the place of the first.
func (d *differ) fdb() {
	type key struct {
		dev  string
		mac  MAC
		self bool
	}
	keyOf := func(f FDB) key { return key{f.Dev, f.MAC, f.OfVXLAN()} }
	e := d.entries[d.vni]
	is := make(map[key]FDB, len(e.isFDB))
	several := map[key][]FDB{} // all entries of a key that has more than one
	dev, over := "", false
	for _, f := range e.isFDB {
		if f.Dev != dev { // many entries share a device
			dev, over = f.Dev, d.fresh["/"+f.Dev] || d.gone["/"+f.Dev] || d.gone["/"+multus.Bridge(d.vni)]
		}
		if over {
			continue
		}
		k := keyOf(f)
		if first, taken := is[k]; !taken {
			is[k] = f
		} else if several[k] == nil {
			several[k] = []FDB{first, f}
		} else {
			several[k] = append(several[k], f)
		}
	}
	for _, f := range e.wantFDB {
		k := keyOf(f)
		first, had := is[k]
		delete(is, k)
		switch others := several[k]; {
		case !had, len(others) == 0 && first != f:
			if first.Own.NextHop != 0 { // the kernel does not replace a nexthop with a destination
				d.add("", DelFDB{first})
			}
			d.add("", ReplaceFDB{f})
		case len(others) > 0:
			delete(several, k)
			if !slices.Contains(others, f) {
				d.add("", ReplaceFDB{f})
				others = others[1:]
			}
			for _, other := range others {
				if other != f {
					d.add("", DelFDB{other})
				}
			}
		}
	}
	for _, f := range e.isFDB {
		if _, unwanted := is[keyOf(f)]; unwanted {
			d.add("", DelFDB{f})
		}
	}
}

func (d *differ) neighbours() {
	e := d.entries[d.vni]
	is := make(map[Neighbour]bool, len(e.isNeighbours))
	dev, over := "", false
	for _, n := range e.isNeighbours {
		if n.Dev != dev {
			dev, over = n.Dev, d.fresh["/"+n.Dev] || d.gone["/"+n.Dev] || d.flushed["/"+n.Dev]
		}
		if !over {
			is[n] = true
		}
	}
	kept := make(map[Neighbour]bool, len(e.wantNeighbours))
	for _, n := range e.wantNeighbours {
		kept[Neighbour{Dev: n.Dev, IP: n.IP}] = true
		if !is[n] {
			d.add("", ReplaceNeighbour{n})
		}
	}
	for _, n := range e.isNeighbours {
		if is[n] && !kept[Neighbour{Dev: n.Dev, IP: n.IP}] {
			d.add("", DelNeighbour{n})
		}
	}
}

func (n *Namespace) table(id string) *Table {
	if i := slices.IndexFunc(n.Tables, func(t Table) bool { return t.id() == id }); i >= 0 {
		return &n.Tables[i]
	}
	return nil
}

// tables replaces each table whose chains, rules or sets differ: another program changed
// them, or the agent is another version. Otherwise it changes only elements.
func (d *differ) tables(namespace string, is, want *Namespace) {
	for _, t := range want.Tables {
		was := is.table(t.id())
		if was == nil || !sameSkeleton(*was, t) {
			d.add(namespace, ReplaceTable{t})
			continue
		}
		var changes []ElementChange
		for i, set := range t.Sets {
			c := ElementChange{Set: set.Name, Type: set.Type, Counter: set.Counter, Del: missing(was.Sets[i].Elements, set.Elements), Add: missing(set.Elements, was.Sets[i].Elements)}
			if len(c.Del)+len(c.Add) > 0 {
				changes = append(changes, c)
			}
		}
		if len(changes) > 0 {
			d.add(namespace, ChangeElements{t.Family, t.Name, changes})
		}
	}
}

func (d *differ) removeTables(namespace string, is, want *Namespace) {
	for _, t := range is.Tables {
		if want.table(t.id()) == nil {
			d.add(namespace, DelTable{t.Family, t.Name})
		}
	}
}

// missing returns the strings of list that other lacks; both are in order.
func missing(list, other []string) []string {
	var out []string
	for _, e := range list {
		if _, found := slices.BinarySearch(other, e); !found {
			out = append(out, e)
		}
	}
	return out
}
