package history

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Seen is the memory of one Network between two syncs. It never changes.
type Seen struct {
	network types.UID
	blocks  map[string]*block
	// ended are the records to write, the oldest first.
	ended []v1.AddressRecord
	// since: every tenure that ended after this time is in ended, or was written.
	since time.Time
	// newest is the highest number of an AddressHistory so far. No number is used twice, so a
	// missing one was deleted.
	newest int
	// wrote is the time of the last write; began the time at which there was something to
	// write again, and bound the time at which the checksum became out of date.
	wrote, began, bound time.Time
	// moved: the AddressBlocks have changed since the newest AddressHistory was written, although no holder did.
	moved bool
}

// block is an AddressBlock as it was seen.
type block struct {
	*v1.AddressBlock
	// nodes of the Bound entries, by position; "" if the node is not known.
	nodes []string
	// located: nodes are known for all Bound entries.
	located bool
	holders uint64
}

// Located says whether the nodes of all pods in the AddressBlock are known.
func (s *Seen) Located(b *v1.AddressBlock) bool {
	if s == nil {
		return false
	}
	was := s.blocks[b.Name]
	return was != nil && was.AddressBlock == b && was.located
}

// look compares the AddressBlocks with the earlier ones, and returns the new memory. Its ended
// has the tenures that ended in between.
func (s State) look(was *Seen) *Seen {
	is := &Seen{network: s.Network.UID, blocks: make(map[string]*block, len(s.Blocks)), since: was.since, newest: was.newest, wrote: was.wrote, began: was.began, bound: was.bound}
	var ended []v1.AddressRecord
	for _, b := range s.Blocks {
		if b.Spec.NetworkUID != s.Network.UID {
			continue
		}
		old := was.blocks[b.Name]
		if old != nil && old.AddressBlock == b && old.located {
			is.blocks[b.Name] = old
			continue
		}
		last, lost := s.follow(old, b)
		is.blocks[b.Name], ended = last, append(ended, lost...)
	}
	for _, name := range slices.Sorted(maps.Keys(was.blocks)) {
		if is.blocks[name] == nil {
			ended = append(ended, was.blocks[name].ends(nil, s.Now)...)
		}
	}
	is.ended = was.ended
	if len(ended) > 0 {
		is.ended = append(slices.Clone(was.ended), ended...)
		slices.SortStableFunc(is.ended, byEnd)
	}
	return is
}

// follow compares an AddressBlock with the earlier one, version by version. The cache may have
// shown a version before its event came. Versions of a former Network do not count: its entries
// were never those of this one.
func (s State) follow(old *block, b *v1.AddressBlock) (last *block, ended []v1.AddressRecord) {
	last = old
	for _, v := range append(slices.Clip(s.Versions[b.Name]), b) {
		switch {
		case v.UID != b.UID, v.Spec.NetworkUID != b.Spec.NetworkUID, v != b && v.Generation >= b.Generation, v != b && last != nil && last.UID == v.UID && v.Generation <= last.Generation:
			continue
		case last != nil && last.AddressBlock != v:
			ended = append(ended, last.ends(v.Spec.Entries, s.Now)...)
		}
		last = s.see(last, v)
	}
	return last, ended
}

// see adds the nodes of the pods to an AddressBlock.
func (s State) see(old *block, b *v1.AddressBlock) *block {
	is := &block{AddressBlock: b, nodes: make([]string, len(b.Spec.Entries)), located: true, holders: holders(b)}
	known := map[types.UID]string{}
	if old != nil {
		for i, e := range old.Spec.Entries {
			if old.nodes[i] != "" {
				known[e.PodUID] = old.nodes[i]
			}
		}
	}
	for i, e := range b.Spec.Entries {
		if e.State != v1.AddressBound {
			continue
		}
		node := known[e.PodUID]
		if node == "" {
			node = s.Nodes[e.PodUID]
		}
		is.nodes[i] = node
		is.located = is.located && node != ""
	}
	return is
}

// ends returns the tenures that ended between an AddressBlock and its later entries:
//
//	Bound to a, then Bound to a                  nothing
//	Bound to a, then Bound to b since T          a until T
//	Bound to a, then Reserved or Resting since T a until T
//	Bound to a, then no entry                    a until now
//	other, then Reserved or Resting for a        a until T: it came and went in between
func (b *block) ends(now []v1.AddressEntry, at time.Time) []v1.AddressRecord {
	is := make(map[string]*v1.AddressEntry, len(now))
	for i := range now {
		is[now[i].Address] = &now[i]
	}
	var ended []v1.AddressRecord
	for i, was := range b.Spec.Entries {
		next := is[was.Address]
		delete(is, was.Address)
		switch {
		case was.State != v1.AddressBound:
			if next != nil && next.State != v1.AddressBound && (next.Pod != was.Pod || next.Owner != was.Owner) {
				ended = append(ended, passed(*next))
			}
		case next == nil:
			ended = append(ended, tenure(was, b.nodes[i], metav1.NewTime(at.Truncate(time.Second))))
		case next.State != v1.AddressBound || next.PodUID != was.PodUID:
			ended = append(ended, tenure(was, b.nodes[i], next.Since))
			if next.State != v1.AddressBound && next.Pod != was.Pod {
				ended = append(ended, passed(*next))
			}
		}
	}
	for _, address := range slices.Sorted(maps.Keys(is)) {
		if is[address].State != v1.AddressBound {
			ended = append(ended, passed(*is[address]))
		}
	}
	return ended
}

func byEnd(a, b v1.AddressRecord) int { return a.Until.Compare(b.Until.Time) }

func tenure(e v1.AddressEntry, node string, until metav1.Time) v1.AddressRecord {
	return v1.AddressRecord{Address: e.Address, Pod: e.Pod, PodUID: e.PodUID, Owner: e.Owner, Node: node, From: &e.Since, Until: until}
}

// passed is a tenure of which only the end was seen.
func passed(e v1.AddressEntry) v1.AddressRecord {
	return v1.AddressRecord{Address: e.Address, Pod: e.Pod, Owner: e.Owner, Until: e.Since}
}

// holders is the checksum of the holders of addresses in an AddressBlock. That of a Network is
// the exclusive or of those of its AddressBlocks, in any order.
func holders(b *v1.AddressBlock) (sum uint64) {
	for _, e := range b.Spec.Entries {
		if e.State == v1.AddressBound {
			sum ^= hash(e.Address, string(e.PodUID))
		}
	}
	return sum
}

func hash(texts ...string) uint64 {
	h := fnv.New64a()
	for _, text := range texts {
		_, _ = h.Write(append([]byte(text), 0)) // never fails
	}
	return h.Sum64()
}

// Checksums returns the checksums of the holders and of the versions of the AddressBlocks of a
// Network.
func Checksums(n *v1.Network, all []*v1.AddressBlock) (held, versions string) {
	var a, b uint64
	for _, block := range all {
		if block.Spec.NetworkUID == n.UID {
			a ^= holders(block)
			b ^= version(block)
		}
	}
	return text(a), text(b)
}

func version(b *v1.AddressBlock) uint64 { return hash(b.Name, string(b.UID), b.ResourceVersion) }

func text(sum uint64) string { return fmt.Sprintf("%016x", sum) }

func (s *Seen) checksums() (held, versions string) {
	var a, b uint64
	for _, block := range s.blocks {
		a ^= block.holders
		b ^= version(block.AddressBlock)
	}
	return text(a), text(b)
}
