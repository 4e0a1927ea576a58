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

// ledger is a working copy of the blocks of one Network, in address order. What
// was observed stays as it is; page.entries is what shall be.
type ledger struct {
	pages []*page
	// ofPod finds the addresses whose entries name a pod of the State, in address
	// order.
	ofPod map[string][]netip.Addr
	// promised addresses are as good as bound, in this plan only: their pod is
	// bound on another Network first.
	promised map[netip.Addr]bool
	// cursor: below it no address is free.
	cursor netip.Addr
}

// page is the working copy of one block.
type page struct {
	*Known
	// quiet: nothing is due about what was observed.
	quiet   bool
	entries []entry // those observed, as they shall be
	// shared: entries are those observed themselves, see own.
	shared bool
	// ours: of the Network that exists now.
	ours bool
	// open: ours, not sealed and not orphaned; only such a page takes entries.
	open bool
	// inherits: the plan makes the block that of the Network.
	inherits bool
	// confirmOver: pods whose entries this plan takes out of the state Bound.
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

// searches is how many entries can be looked at while one name is searched for
// among those of a page.
const searches = 8

// note enters what the page has of the pods into ofPod, at the cost of the fewer of
// the two.
func (l *ledger) note(p *page, pods map[string]*corev1.Pod) {
	if len(pods)*searches < len(p.observed) {
		for name := range pods { // each has a list of its own, so the order is all the same
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

// own makes the entries ones that may be changed.
func (p *page) own() {
	if !p.shared {
		return
	}
	p.entries, p.shared = slices.Clone(p.entries), false
	for i := range p.entries {
		p.entries[i].settled = p.Settled.Has(i)
	}
}

// untouched says that the page is as it was observed, and well.
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

// writable says whether an entry for the address could be written: its page is
// open or would be new.
func (l *ledger) writable(addr netip.Addr) bool {
	p := l.page(addr)
	return p == nil || p.open
}

// put writes the entry of an address, in a new page if need be.
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

// bound returns the lowest address that the incarnation of the pod holds. One of
// an earlier Network of this name does not count: it is never published.
func (l *ledger) bound(name string, uid types.UID) (netip.Addr, bool) {
	for _, addr := range l.ofPod[name] {
		if e := l.find(addr); e != nil && l.page(addr).ours && e.State == v1.AddressBound && e.PodUID == uid {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// free returns the lowest usable address without entry, in amortised constant
// time: addresses are only taken while one plan is made.
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
			// All addresses of a page that takes no entries, or has no room, are skipped at once.
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

// bind gives the address to the pod. Where another incarnation of a pod is bound to it,
// whatever the view says of that one, the write depends on the live read that it is over.
func (l *ledger) bind(addr netip.Addr, pod PodRef, owner v1.AddressOwner, now metav1.Time) {
	if e := l.find(addr); e != nil && e.State == v1.AddressBound && e.PodUID != pod.UID {
		page := l.page(addr)
		page.confirmOver = append(page.confirmOver, PodRef{e.Pod, e.PodUID})
	}
	l.put(addr, v1.AddressEntry{Pod: pod.Name, PodUID: pod.UID, Owner: owner, State: v1.AddressBound, Since: now})
}

// over takes an entry out of the state Bound: next is its new state, or "" to
// free the address. The write then depends on the live read that the pod is over.
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

// sweep drops the entries that turned to "".
func (l *ledger) sweep() {
	for _, p := range l.pages {
		p.entries = slices.DeleteFunc(p.entries, func(e entry) bool { return e.State == "" })
	}
}

// sortedRefs is for rendering: each pod once, in name order.
func sortedRefs(refs []PodRef) []PodRef {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b PodRef) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return slices.Compact(refs)
}
