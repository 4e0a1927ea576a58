package tables

import (
	"cmp"
	"net/netip"
	"slices"
)

// batch collects the changes of one event. They are safe for the data plane after each step:
//
//	1  nodes set
//	2  places, networks and transits delete
//	3  ports set
//	4  networks, transits and places set
//	5  ports set that a place of step 4 led to before: a new owner gets no packets of the old
//	6  places set that lead to a port of step 5
//	7  ports and nodes delete: no entry leads to them any more
//
// An entry of transits may lead to a port without that address meanwhile: the programs compare them.
type batch struct {
	changes []Change
	// left are the ports that an entry led to before its change.
	left map[PortKey]bool
	// moved are changes of entries that lead to another port than before, by that port.
	moved map[PortKey][]Change
}

func (b *batch) step(c Change) int {
	switch {
	case c.Map == NodeMap && !c.Delete:
		return 1
	case c.Delete && (c.Map == PlaceMap || c.Map == NetworkMap || c.Map == TransitMap):
		return 2
	case c.Delete:
		return 7
	case c.Map == PortMap && b.left[c.Port]:
		return 5
	case c.Map == PortMap:
		return 3
	case b.left[c.leadsTo()]:
		return 6
	}
	return 4
}

// leadsTo returns the port of the place, 0 if none.
func (c Change) leadsTo() PortKey { return c.PlaceValue.Interface }

// compare adds the change if the entry differs.
func (b *batch) compare(is Tables, c Change) bool {
	was, exists := is.entry(c)
	if exists && was == c || !exists && c.Delete {
		return false
	}
	if before := was.leadsTo(); before != 0 && !c.Delete {
		if b.left == nil {
			b.left, b.moved = map[PortKey]bool{}, map[PortKey][]Change{}
		}
		b.left[before] = true
		if to := c.leadsTo(); to != 0 && to != before {
			b.moved[before] = append(b.moved[before], c)
		}
	}
	b.changes = append(b.changes, c)
	return true
}

// ordered returns the changes by their steps, and those of one step by their keys.
func (b *batch) ordered() []Change {
	// Two entries that swap their ports cannot wait for each other.
	for _, port := range b.changes {
		if port.Map == PortMap && !port.Delete {
			for _, c := range b.moved[port.Port] {
				if b.left[c.leadsTo()] {
					b.changes = append(b.changes, c.key().change(true))
				}
			}
		}
	}
	sorted := make([]ranked, len(b.changes))
	for i := range b.changes {
		sorted[i] = b.rank(i)
	}
	slices.SortFunc(sorted, b.compareRanked)
	b.arrange(sorted)
	return b.changes
}

// arrange moves the changes to their places in the order, without a copy of all: each is some hundred bytes, and
// Diff has one for each entry if it fills a map.
func (b *batch) arrange(sorted []ranked) {
	for i := range sorted {
		if sorted[i].from == i {
			continue
		}
		free, moved := i, b.changes[i]
		for from := sorted[i].from; from != i; from = sorted[free].from {
			b.changes[free] = b.changes[from]
			sorted[free].from, free = free, from
		}
		b.changes[free], sorted[free].from = moved, free
	}
}

// ranked is the sort key of a change as two numbers: Diff spends most of its time on sorting if it fills a map.
type ranked struct {
	// group is the step, the map, and the interface or VNI.
	group, mac uint64
	from       int // the index of the change
}

func (b *batch) rank(i int) ranked {
	c := &b.changes[i]
	r := ranked{group: uint64(b.step(*c))<<40 | uint64(c.Map)<<32 | uint64(c.Port) | uint64(uint32(c.VNI)) | uint64(uint32(c.Place.VNI)), from: i}
	for _, digit := range c.Place.MAC {
		r.mac = r.mac<<8 | uint64(digit)
	}
	return r
}

func (b *batch) compareRanked(x, y ranked) int {
	if x.group != y.group {
		return cmp.Compare(x.group, y.group)
	}
	if x.mac != y.mac {
		return cmp.Compare(x.mac, y.mac)
	}
	c, d := &b.changes[x.from], &b.changes[y.from]
	return cmp.Or(c.Node.Compare(d.Node), c.Transit.Compare(d.Transit))
}

// Diff returns the changes from the observed to the desired contents, in a safe order.
func Diff(is, want Tables) []Change {
	b := batch{changes: make([]Change, 0, 16+max(0, len(want.Places)-len(is.Places)))}
	want.each(func(c Change) { b.compare(is, c) })
	is.each(func(c Change) {
		if _, wanted := want.entry(c); !wanted {
			b.compare(is, c.key().change(true))
		}
	})
	return b.ordered()
}

// key of an entry of any map.
type key struct {
	in    Map
	port  PortKey
	place PlaceKey
	vni   int32
	node  netip.Addr

	transit netip.Addr
}

func nodeKey(address netip.Addr) key { return key{in: NodeMap, node: address} }

func (c Change) key() key { return key{c.Map, c.Port, c.Place, c.VNI, c.Node, c.Transit} }

// change of the entry with the key.
func (k key) change(remove bool) Change {
	return Change{Map: k.in, Delete: remove, Port: k.port, Place: k.place, VNI: k.vni, Node: k.node, Transit: k.transit}
}

// each calls f with each entry as the change that sets it, in any order.
func (t Tables) each(f func(Change)) {
	for k, v := range t.Ports {
		f(Change{Map: PortMap, Port: k, PortValue: v})
	}
	for k, v := range t.Places {
		f(Change{Map: PlaceMap, Place: k, PlaceValue: v})
	}
	for k, v := range t.Networks {
		f(Change{Map: NetworkMap, VNI: k, NetworkValue: v})
	}
	for k := range t.Nodes {
		f(Change{Map: NodeMap, Node: k})
	}
	for k, v := range t.Transits {
		f(Change{Map: TransitMap, Transit: k, TransitValue: v})
	}
}

// entry returns the change that sets the entry with the key of c, and whether it exists.
func (t Tables) entry(c Change) (Change, bool) {
	var was Change
	exists := false
	switch c.Map {
	case PortMap:
		was.PortValue, exists = t.Ports[c.Port]
	case PlaceMap:
		was.PlaceValue, exists = t.Places[c.Place]
	case NetworkMap:
		was.NetworkValue, exists = t.Networks[c.VNI]
	case NodeMap:
		_, exists = t.Nodes[c.Node]
	case TransitMap:
		was.TransitValue, exists = t.Transits[c.Transit]
	}
	if exists {
		was.Map, was.Port, was.Place, was.VNI, was.Node, was.Transit = c.Map, c.Port, c.Place, c.VNI, c.Node, c.Transit
	}
	return was, exists
}
