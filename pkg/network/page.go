package network

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
)

// Page is what one version of a block says. It never changes, so that whoever has
// it may keep it for as long as the cache shows that version.
type Page struct {
	block    *v1.AddressBlock // nil: to be created
	prefix   netip.Prefix
	observed []entry // in address order, each address once
	// dropped says which entries of the block are not among observed.
	dropped []string
	// byPod is the positions of observed in the order of the names of their pods.
	byPod []uint16
	// owners that the entries name, each once.
	owners []v1.AddressOwner
	// inheritedAt is when a Network inherited the block; zero: never.
	inheritedAt time.Time
}

type entry struct {
	addr netip.Addr
	// Shared with the block that was read and with other entries: it is replaced, never
	// changed.
	*v1.AddressEntry
	// settled: nothing is due about the entry. Its pod may be missing from the State,
	// so that nothing may be concluded from its absence. Set in working copies only.
	settled bool
}

// Read reads a block; false for one that we did not write: its name is not that of
// the addresses it claims, so another block may cover them.
func Read(block *v1.AddressBlock) (*Page, bool) {
	p, ok := read(block)
	if !ok {
		return nil, false
	}
	for i := range p.observed {
		p.byPod = append(p.byPod, uint16(i)) //nolint:gosec // a block has 256 addresses
		if owner := p.observed[i].Owner; !slices.Contains(p.owners, owner) {
			p.owners = append(p.owners, owner)
		}
	}
	slices.SortStableFunc(p.byPod, func(a, b uint16) int { return cmp.Compare(p.observed[a].Pod, p.observed[b].Pod) })
	return p, true
}

// read is Read without the ways to find entries. Entries are an atomic list, which
// a hand can spoil: what is no address of the block says nothing, and of several
// entries of one address the first Bound one counts.
func read(block *v1.AddressBlock) (*Page, bool) {
	prefix, err := netip.ParsePrefix(block.Spec.CIDR)
	if err != nil || prefix != ipam.Block(prefix.Addr()) || block.Name != ipam.BlockName(block.Spec.Network, prefix) {
		return nil, false
	}
	p := &Page{block: block, prefix: prefix, observed: make([]entry, 0, len(block.Spec.Entries))}
	p.inheritedAt, _ = time.Parse(time.RFC3339, block.Annotations[v1.InheritedAnnotation]) // what is no time is none
	for i := range block.Spec.Entries {
		e := &block.Spec.Entries[i]
		addr, err := netip.ParseAddr(e.Address)
		if err != nil || !prefix.Contains(addr) {
			p.dropped = append(p.dropped, fmt.Sprintf("drop %q of %s, no address of the block", e.Address, e.Pod))
			continue
		}
		p.observed = append(p.observed, entry{addr: addr, AddressEntry: e})
	}
	slices.SortStableFunc(p.observed, func(a, b entry) int {
		if order := a.addr.Compare(b.addr); order != 0 || (a.State == v1.AddressBound) == (b.State == v1.AddressBound) {
			return order
		}
		if a.State == v1.AddressBound {
			return -1
		}
		return 1
	})
	once := p.observed[:0]
	for _, e := range p.observed {
		if len(once) > 0 && once[len(once)-1].addr == e.addr {
			p.dropped = append(p.dropped, fmt.Sprintf("drop %s of %s, listed twice", e.addr, e.Pod))
			continue
		}
		once = append(once, e)
	}
	p.observed = once
	return p, true
}

// Known is what is known of a block before Diff.
type Known struct {
	*Page
	// Settled entries are those of which Settles says so by the pods of the same view.
	Settled Positions
	// bits, by position, is the prefix length that the pod of a settled entry publishes.
	bits [ipam.BlockSize]uint8
}

// Settle notes that an entry is settled by a pod that publishes this prefix length.
func (k *Known) Settle(i, bits int) {
	k.Settled.Add(i)
	k.bits[i] = uint8(bits) //nolint:gosec // at most 128
}

// Bits is the prefix length that the pod of a settled entry publishes.
func (k *Known) Bits(i int) int { return int(k.bits[i]) }

// Positions are a set of those of the entries of a block.
type Positions [ipam.BlockSize / 64]uint64

// Add adds a position.
func (p *Positions) Add(i int) { p[i/64] |= 1 << (i % 64) }

// Remove removes a position.
func (p *Positions) Remove(i int) { p[i/64] &^= 1 << (i % 64) }

// Has says whether a position is in the set.
func (p *Positions) Has(i int) bool { return p[i/64]&(1<<(i%64)) != 0 }

func (p *Positions) size() (n int) {
	for _, word := range p {
		n += bits.OnesCount64(word)
	}
	return n
}

// Quiet says whether nothing can be due about the block, whatever else is so.
func (k *Known) Quiet() bool {
	return len(k.observed) > 0 && k.Settled.size() == len(k.observed) && len(k.dropped) == 0 && !orphaned(k.block) &&
		(hasFinalizer(k.block) || k.block.DeletionTimestamp != nil)
}

// Size is the number of entries.
func (p *Page) Size() int { return len(p.observed) }

// Block is the version of the block that was read.
func (p *Page) Block() *v1.AddressBlock { return p.block }

// PodName is that of the pod of an entry.
func (p *Page) PodName(i int) string { return p.observed[i].Pod }

// Find returns where the entry at a position of another page is in this one, if it
// is the same.
func (p *Page) Find(other *Page, i int) (int, bool) {
	e := &other.observed[i]
	at, ok := index(p.observed, e.addr)
	return at, ok && sameEntry(*p.observed[at].AddressEntry, *e.AddressEntry)
}

// Owners that the entries name, each once; the caller does not change them.
func (p *Page) Owners() []v1.AddressOwner { return p.owners }

// Settles says whether nothing can be due about an entry, whatever else is so, given
// the pod found under the name that it has: it is Bound to this pod, which lives,
// publishes the address, says nothing else, and is of the owner that the entry names.
// It returns the prefix length that the pod publishes.
func (p *Page) Settles(i int, pod *corev1.Pod) (bits int, settled bool) {
	e := &p.observed[i]
	if e.State != v1.AddressBound || Over(PodRef{e.Pod, e.PodUID}, pod) || attachment.Gated(pod) || SaysItWaits(pod) {
		return 0, false
	}
	if owner := attachment.Owner(pod); owner != e.Owner && owner != (v1.AddressOwner{}) {
		return 0, false
	}
	published := attachment.Published(pod)[p.block.Spec.Network].Address
	return published.Bits(), published.Addr() == e.addr
}

// Of returns the positions of the entries that name a pod, in address order.
func (p *Page) Of(pod string) []uint16 {
	first, _ := slices.BinarySearchFunc(p.byPod, pod, func(i uint16, name string) int { return cmp.Compare(p.observed[i].Pod, name) })
	last := first
	for last < len(p.byPod) && p.observed[p.byPod[last]].Pod == pod {
		last++
	}
	return p.byPod[first:last]
}
