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
	case c.Map == NodeMap && c.Value != nil:
		return 1
	case c.Value == nil && (c.Map == PlaceMap || c.Map == NetworkMap || c.Map == TransitMap):
		return 2
	case c.Value == nil:
		return 7
	case c.Map == PortMap && b.left[c.Port]:
		return 5
	case c.Map == PortMap:
		return 3
	case b.left[leadsTo(c.Value)]:
		return 6
	}
	return 4
}

// leadsTo returns the port of a place, 0 if none.
func leadsTo(value any) PortKey {
	place, _ := value.(Place)
	return place.Interface
}

// add the change if the entry differs. was is its value before.
func (b *batch) add(was any, c Change) bool {
	if was == c.Value {
		return false
	}
	if before := leadsTo(was); before != 0 && c.Value != nil {
		if b.left == nil {
			b.left, b.moved = map[PortKey]bool{}, map[PortKey][]Change{}
		}
		b.left[before] = true
		if to := leadsTo(c.Value); to != 0 && to != before {
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
		if port.Map == PortMap && port.Value != nil {
			for _, c := range b.moved[port.Port] {
				if b.left[leadsTo(c.Value)] {
					b.changes = append(b.changes, Change{Key: c.Key})
				}
			}
		}
	}
	sorted := make([]ranked, len(b.changes))
	for i := range b.changes {
		sorted[i] = b.rank(i)
	}
	slices.SortFunc(sorted, b.compareRanked)
	// In place, because a first Sync may have 150,000 changes: each cycle of moves begins with a free place.
	for i := range sorted {
		first, to := b.changes[i], i
		for from := sorted[to].from; from != i; to, from = from, sorted[from].from {
			b.changes[to], sorted[to].from = b.changes[from], to
		}
		b.changes[to], sorted[to].from = first, to
	}
	return b.changes
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
	return b.changes[x.from].Address.Compare(b.changes[y.from].Address)
}

// Diff returns the changes from the observed to the desired contents, in a safe order.
func Diff(is, want Tables) []Change {
	b := batch{changes: make([]Change, 0, 16+max(0, len(want.Places)-len(is.Places)))}
	diff(&b, is.Ports, want.Ports, func(index PortKey) Key { return Key{Map: PortMap, Port: index} })
	diff(&b, is.Places, want.Places, func(place PlaceKey) Key { return Key{Map: PlaceMap, Place: place} })
	diff(&b, is.Networks, want.Networks, vniKey)
	diff(&b, is.Nodes, want.Nodes, nodeKey)
	diff(&b, is.Transits, want.Transits, transitKey)
	return b.ordered()
}

// diff adds the changes of one map.
func diff[K, V comparable](b *batch, is, want map[K]V, key func(K) Key) {
	for k, v := range want {
		if was, exists := is[k]; !exists || was != v {
			b.add(get(is, k), Change{key(k), v})
		}
	}
	for k, v := range is {
		if _, wanted := want[k]; !wanted {
			b.add(v, Change{Key: key(k)})
		}
	}
}

func vniKey(vni int32) Key              { return Key{Map: NetworkMap, VNI: vni} }
func nodeKey(address netip.Addr) Key    { return Key{Map: NodeMap, Address: address} }
func transitKey(address netip.Addr) Key { return Key{Map: TransitMap, Address: address} }
