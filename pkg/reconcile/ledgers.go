package reconcile

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
)

// ledgers remembers, for each Network, its AddressBlocks as they were read and the pods
// that settle their entries. So the cost of a sync depends on the changes, not on the
// size of the Network. It remembers the caches, not the cluster. It drops an item as soon
// as the cache shows another version of the AddressBlock, or an event of the pod arrives. It
// compares everything with the caches when a Network is first synced, every wholeEvery,
// and on each sync while no events are passed on.
//
// If an event is late, an entry stays settled by an old version of a pod. This takes nothing
// from any pod: a settled entry is one that needs no change.
type ledgers struct {
	events *podEvents

	mu sync.Mutex
	// pages by path of the AddressBlock, of all Networks, because other Networks read
	// them too.
	pages map[string]*network.Page
	of    map[Key]*ledger
}

// ledger is the memory about one Network. Only its sync uses it.
type ledger struct {
	blocks map[string]*settledBlock
	// others are names of pods that ask for the Network or publish one of its addresses,
	// and may settle no entry.
	others map[string]bool
}

// settledBlock has, by position, the pods that settle the entries of a page.
type settledBlock struct {
	network.Known
	pods []*corev1.Pod
}

func newLedgers(events *podEvents) *ledgers {
	return &ledgers{events: events, pages: map[string]*network.Page{}, of: map[Key]*ledger{}}
}

// take returns the ledger of a Network and the pods whose events must be handled now.
// Call it before reading the caches.
func (l *ledgers) take(key Key) (is *ledger, changed map[string]bool, whole bool) {
	changed, whole = l.events.take(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if is = l.of[key]; is == nil {
		is = &ledger{blocks: map[string]*settledBlock{}, others: map[string]bool{}}
		l.of[key] = is
	}
	return is, changed, whole
}

// drop forgets a Network without AddressBlocks: each sync reads everything about it.
func (l *ledgers) drop(key Key) {
	l.events.forget(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, key)
}

func (l *ledgers) keep(page *network.Page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages[path(page.Block().Namespace, page.Block().Name)] = page
}

func (l *ledgers) forget(namespace, block string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pages, path(namespace, block))
}

// page returns the content of an AddressBlock, or nil if we did not write it.
func (l *ledgers) page(block *v1.AddressBlock) *network.Page {
	l.mu.Lock()
	page := l.pages[path(block.Namespace, block.Name)]
	l.mu.Unlock()
	if page == nil || page.Block() != block {
		page, _ = network.Read(block)
	}
	return page
}

func (b *settledBlock) settle(i int, pod *corev1.Pod, bits int) {
	b.pods[i] = pod
	b.Settle(i, bits)
}

func (b *settledBlock) unsettle(i int) {
	b.pods[i] = nil
	b.Settled.Remove(i)
}

// unsettleBut unsettles the entries that name a pod, except those that this version of
// the pod settles.
func (b *settledBlock) unsettleBut(name string, pod *corev1.Pod) {
	for _, i := range b.Of(name) {
		if b.pods[i] != pod {
			b.unsettle(int(i))
		}
	}
}
