package dataplane

import "slices"

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
			c := ElementChange{Set: set.Name, Type: set.Type, Del: missing(was.Sets[i].Elements, set.Elements), Add: missing(set.Elements, was.Sets[i].Elements)}
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
	old := namespace == "" && len(d.is.oldBridges()) > 0
	for _, t := range is.Tables {
		if want.table(t.id()) == nil && (t.Family != "bridge" || !old) {
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
