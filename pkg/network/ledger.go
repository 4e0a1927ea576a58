package network

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
)

// ledger is a working copy of the AddressBlocks of one Network, in address order. The
// observed entries do not change; page.entries has the desired ones.
type ledger struct {
	pages []*page
	// ofPod finds the addresses whose entries name a pod of the State, in address order.
	ofPod map[string][]netip.Addr
	// promised addresses count as bound, in this plan only: their pod is bound on another
	// Network first.
	promised map[netip.Addr]bool
	// cursor: no address below it is free.
	cursor netip.Addr
}

// page is the working copy of one AddressBlock.
type page struct {
	*Known
	// quiet: the observed entries need no change.
	quiet   bool
	entries []entry // the desired ones
	// shared: entries is the observed slice itself, see own.
	shared bool
	// The page belongs to the Network that exists now.
	ours bool
	// open: of this Network, not sealed and not orphaned. Only such a page takes entries.
	open bool
	// inherits: the plan gives the AddressBlock to the Network.
	inherits bool
	// confirmOver: pods whose entries leave the state Bound in this plan.
	confirmOver []PodRef
}

func newLedger(network *v1.Network, blocks []*v1.AddressBlock, known map[*v1.AddressBlock]*Known, pods map[string]*corev1.Pod) *ledger {
	l := &ledger{ofPod: map[string][]netip.Addr{}, promised: map[netip.Addr]bool{}, pages: make([]*page, 0, len(blocks))}
	for _, block := range blocks {
		k := known[block]
		if k == nil {
			read, ok := Read(block)
			if !ok {
				continue
			}
			k = &Known{Page: read}
		}
		p := &page{Known: k, quiet: k.Quiet(), entries: k.observed, shared: true}
		p.ours = network != nil && block.Spec.NetworkUID == network.UID
		p.open = p.ours && !block.Spec.Sealed && !orphaned(block)
		l.pages = append(l.pages, p)
	}
	slices.SortFunc(l.pages, func(a, b *page) int { return a.prefix.Addr().Compare(b.prefix.Addr()) })
	for _, p := range l.pages {
		l.note(p, pods)
	}
	return l
}

// searches compares costs: one search for a name in a page takes as long as reading this
// number of entries.
const searches = 8

// note adds the entries of the page that name pods to ofPod. It searches for each pod or
// reads each entry, whichever takes less time.
func (l *ledger) note(p *page, pods map[string]*corev1.Pod) {
	if len(pods)*searches < len(p.observed) {
		for name := range pods { // the order does not matter: each has its own list
			for _, i := range p.Of(name) {
				l.ofPod[name] = append(l.ofPod[name], p.observed[i].addr)
			}
		}
		return
	}
	for i := range p.observed {
		if name := p.observed[i].Pod; pods[name] != nil {
			l.ofPod[name] = append(l.ofPod[name], p.observed[i].addr)
		}
	}
}

// own copies the entries before a change.
func (p *page) own() {
	if !p.shared {
		return
	}
	p.entries, p.shared = slices.Clone(p.entries), false
	for i := range p.entries {
		p.entries[i].settled = p.Settled.Has(i)
	}
}

// untouched says that the page is as observed and needs no change.
func (p *page) untouched() bool { return p.quiet && p.shared }

// page returns the page that covers the address, or nil.
func (l *ledger) page(addr netip.Addr) *page {
	first := ipam.Block(addr).Addr()
	i, ok := slices.BinarySearchFunc(l.pages, first, func(p *page, a netip.Addr) int { return p.prefix.Addr().Compare(a) })
	if !ok {
		return nil
	}
	return l.pages[i]
}

// find returns the entry of an address, or nil. It is valid until the next put
// or drop.
func (l *ledger) find(addr netip.Addr) *entry {
	p := l.page(addr)
	if p == nil {
		return nil
	}
	if i, ok := index(p.entries, addr); ok {
		return &p.entries[i]
	}
	return nil
}

func index(entries []entry, addr netip.Addr) (int, bool) {
	return slices.BinarySearchFunc(entries, addr, func(e entry, a netip.Addr) int { return e.addr.Compare(a) })
}

// writable says whether an entry for the address could be written: its page is open, or does
// not exist yet.
func (l *ledger) writable(addr netip.Addr) bool {
	p := l.page(addr)
	return p == nil || p.open
}

// put writes the entry of an address. It adds a page if there is none.
func (l *ledger) put(addr netip.Addr, e v1.AddressEntry) {
	e.Address = addr.String()
	p := l.page(addr)
	if p == nil {
		p = &page{Known: &Known{Page: &Page{prefix: ipam.Block(addr)}}, ours: true, open: true}
		at, _ := slices.BinarySearchFunc(l.pages, p.prefix.Addr(), func(q *page, a netip.Addr) int { return q.prefix.Addr().Compare(a) })
		l.pages = slices.Insert(l.pages, at, p)
	}
	p.own()
	i, found := index(p.entries, addr)
	if found {
		p.entries[i] = entry{addr: addr, AddressEntry: &e}
	} else {
		p.entries = slices.Insert(p.entries, i, entry{addr: addr, AddressEntry: &e})
	}
	if !slices.Contains(l.ofPod[e.Pod], addr) {
		l.ofPod[e.Pod] = append(l.ofPod[e.Pod], addr)
		slices.SortFunc(l.ofPod[e.Pod], netip.Addr.Compare)
	}
}

// bound returns the lowest address that this pod, by name and UID, holds. An address of an
// earlier Network with this name does not count: it is never published.
func (l *ledger) bound(name string, uid types.UID) (netip.Addr, bool) {
	for _, addr := range l.ofPod[name] {
		if e := l.find(addr); e != nil && l.page(addr).ours && e.State == v1.AddressBound && e.PodUID == uid {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// free returns the lowest usable address without an entry, in amortised constant time:
// addresses are only taken while one plan is made.
func (l *ledger) free(pool ipam.Pool) (netip.Addr, bool) {
	if !l.cursor.IsValid() {
		first, ok := pool.First()
		if !ok {
			return netip.Addr{}, false
		}
		l.cursor = first
	}
	addr, ok := pool.Next(l.cursor)
	for ok {
		p := l.page(addr)
		switch {
		case p != nil && (!p.open || len(p.entries) == ipam.BlockSize):
			// A page that takes no entries, or that is full: skip all its addresses at once.
			addr = ipam.LastOf(p.prefix)
		case l.promised[addr]:
		case p == nil:
			l.cursor = addr
			return addr, true
		default:
			if _, taken := index(p.entries, addr); !taken {
				l.cursor = addr
				return addr, true
			}
		}
		next := addr.Next()
		if !next.IsValid() {
			return netip.Addr{}, false
		}
		l.cursor = next
		addr, ok = pool.Next(next)
	}
	return netip.Addr{}, false
}

// bind gives the address to the pod. If the address is bound to another pod by UID, the
// write depends on the live read that this pod has terminated. The view alone is not
// enough.
func (l *ledger) bind(addr netip.Addr, pod PodRef, owner v1.AddressOwner, now metav1.Time) {
	if e := l.find(addr); e != nil && e.State == v1.AddressBound && e.PodUID != pod.UID {
		page := l.page(addr)
		page.confirmOver = append(page.confirmOver, PodRef{e.Pod, e.PodUID})
	}
	l.put(addr, v1.AddressEntry{Pod: pod.Name, PodUID: pod.UID, Owner: owner, State: v1.AddressBound, Since: now})
}

// over takes an entry out of the state Bound. next is its new state, or "" to free the
// address. The write then depends on the live read that the pod has terminated.
func (p *page) over(i int, next v1.AddressState, now metav1.Time) {
	e := &p.entries[i]
	p.confirmOver = append(p.confirmOver, PodRef{e.Pod, e.PodUID})
	p.turn(i, next, now)
}

// turn changes the state of an entry.
func (p *page) turn(i int, next v1.AddressState, now metav1.Time) {
	e := *p.entries[i].AddressEntry
	e.State, e.PodUID, e.Since = next, "", now
	p.entries[i].AddressEntry = &e
}

// sweep removes the entries whose state turned to "".
func (l *ledger) sweep() {
	for _, p := range l.pages {
		p.entries = slices.DeleteFunc(p.entries, func(e entry) bool { return e.State == "" })
	}
}

// sortedRefs is for rendering: it returns each pod once, in name order.
func sortedRefs(refs []PodRef) []PodRef {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b PodRef) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return slices.Compact(refs)
}
