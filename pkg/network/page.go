package network

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
)

// Page is the content of one version of an AddressBlock. It never changes, so a caller
// may keep it while the cache shows that version.
type Page struct {
	block    *v1.AddressBlock // nil: to be created
	prefix   netip.Prefix
	observed []entry // in address order, each address once
	// dropped says which entries of the AddressBlock are not in observed.
	dropped []string
	// byPod has the positions in observed, ordered by the names of their pods.
	byPod []uint16
	// owners that the entries name, each once.
	owners []v1.AddressOwner
	// inheritedAt is when a Network inherited the AddressBlock; zero: never.
	inheritedAt time.Time
}

type entry struct {
	addr netip.Addr
	// Shared with the AddressBlock that was read and with other entries: replaced, never
	// changed.
	*v1.AddressEntry
	// settled: the entry needs no change. Its pod may be missing from the State, so its
	// absence proves nothing. Set in working copies only.
	settled bool
}

// Read reads an AddressBlock. It returns false for one that we did not write: its name does
// not match the addresses that it claims, so another AddressBlock may cover them.
func Read(block *v1.AddressBlock) (*Page, bool) {
	p, ok := read(block)
	if !ok {
		return nil, false
	}
	for i := range p.observed {
		p.byPod = append(p.byPod, uint16(i)) //nolint:gosec // an AddressBlock has 256 addresses
		if owner := p.observed[i].Owner; !slices.Contains(p.owners, owner) {
			p.owners = append(p.owners, owner)
		}
	}
	slices.SortStableFunc(p.byPod, func(a, b uint16) int { return cmp.Compare(p.observed[a].Pod, p.observed[b].Pod) })
	return p, true
}

// read is Read without the indexes. Entries are an atomic list that a user can spoil. An
// entry whose address is not of the AddressBlock counts for nothing. If one address has
// several entries, the first Bound one counts.
func read(block *v1.AddressBlock) (*Page, bool) {
	prefix, err := netip.ParsePrefix(block.Spec.CIDR)
	if err != nil || prefix != ipam.Block(prefix.Addr()) || block.Name != ipam.BlockName(block.Spec.Network, prefix) {
		return nil, false
	}
	p := &Page{block: block, prefix: prefix, observed: make([]entry, 0, len(block.Spec.Entries))}
	p.inheritedAt, _ = time.Parse(time.RFC3339, block.Annotations[v1.InheritedAnnotation]) // an unreadable time counts as none
	for i := range block.Spec.Entries {
		e := &block.Spec.Entries[i]
		addr, err := netip.ParseAddr(e.Address)
		if err != nil || !prefix.Contains(addr) {
			p.dropped = append(p.dropped, fmt.Sprintf("drop %q of %s, not in the CIDR of its AddressBlock", e.Address, e.Pod))
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

// Known is the knowledge about an AddressBlock from before Diff.
type Known struct {
	*Page
	// Settled are the entries that Settles accepts with the pods of the same view.
	Settled Positions
	// bits, by position, is the prefix length that the pod of a settled entry publishes.
	bits [ipam.BlockSize]uint8
}

// Settle records that a pod that publishes this prefix length settles an entry.
func (k *Known) Settle(i, bits int) {
	k.Settled.Add(i)
	k.bits[i] = uint8(bits) //nolint:gosec // at most 128
}

// Bits is the prefix length that the pod of a settled entry publishes.
func (k *Known) Bits(i int) int { return int(k.bits[i]) }

// Positions are a set of positions in the entries of an AddressBlock.
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

// Quiet says whether the AddressBlock needs no change, independent of the rest of the State.
func (k *Known) Quiet() bool {
	return len(k.observed) > 0 && k.Settled.size() == len(k.observed) && len(k.dropped) == 0 && !orphaned(k.block) &&
		(hasFinalizer(k.block) || k.block.DeletionTimestamp != nil)
}

// Size is the number of entries.
func (p *Page) Size() int { return len(p.observed) }

// Block is the version of the AddressBlock that was read.
func (p *Page) Block() *v1.AddressBlock { return p.block }

// PodName is the name of the pod of an entry.
func (p *Page) PodName(i int) string { return p.observed[i].Pod }

// Find returns the position in this page of an entry of another page. It returns false if
// the entry differs or is missing.
func (p *Page) Find(other *Page, i int) (int, bool) {
	e := &other.observed[i]
	at, ok := index(p.observed, e.addr)
	return at, ok && sameEntry(*p.observed[at].AddressEntry, *e.AddressEntry)
}

// Owners returns the owners that the entries name, each once. The caller must not change
// them.
func (p *Page) Owners() []v1.AddressOwner { return p.owners }

// Settles says whether an entry needs no change, independent of the rest of the State.
// pod is the pod found under its name. The entry must be Bound to this pod. The pod must
// live, publish the address, report no wait, and belong to the owner in the entry.
// Settles also returns the prefix length that the pod publishes.
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

// Entries returns the entries in address order.
func (p *Page) Entries() iter.Seq2[netip.Addr, *v1.AddressEntry] {
	return func(yield func(netip.Addr, *v1.AddressEntry) bool) {
		for i := range p.observed {
			if !yield(p.observed[i].addr, p.observed[i].AddressEntry) {
				return
			}
		}
	}
}
