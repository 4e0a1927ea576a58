package reconcile

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
)

// wholeEvery is how often a Network is fully compared, independent of events.
const wholeEvery = 10 * time.Minute

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
	mu    sync.Mutex
	clock clock.PassiveClock
	// pages by path of the AddressBlock, of all Networks, because other Networks read
	// them too.
	pages map[string]*network.Page
	of    map[Key]*ledger
	// fed: pod events are passed on.
	fed bool
}

// ledger is the memory about one Network. Only its sync uses it, except for changed and
// whole.
type ledger struct {
	whole  time.Time // when it was last compared fully; zero: do it next
	blocks map[string]*settledBlock
	// others are names of pods that ask for the Network or publish one of its addresses,
	// and may settle no entry.
	others map[string]bool
	// changed are names of the pods with new events.
	changed map[string]bool
}

// settledBlock has, by position, the pods that settle the entries of a page.
type settledBlock struct {
	network.Known
	pods []*corev1.Pod
}

func newLedgers(clock clock.PassiveClock) *ledgers {
	return &ledgers{clock: clock, pages: map[string]*network.Page{}, of: map[Key]*ledger{}}
}

func (l *ledgers) feed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fed = true
}

// changed records a pod event for the Networks among the keys. A Network that was never
// synced will be compared fully.
func (l *ledgers) changed(keys []Key, pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if ledger := l.of[key]; ledger != nil {
			ledger.changed[pod] = true
		}
	}
}

// doubt makes all Networks of a namespace be compared fully.
func (l *ledgers) doubt(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, ledger := range l.of {
		if key.Namespace == namespace {
			ledger.whole = time.Time{}
		}
	}
}

// take returns the ledger of a Network and the pods whose events must be handled now.
// Call it before reading the caches.
func (l *ledgers) take(key Key) (ledger *ledger, changed map[string]bool, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ledger = l.of[key]
	if ledger == nil {
		ledger = newLedger()
		l.of[key] = ledger
	}
	changed, ledger.changed = ledger.changed, map[string]bool{}
	now := l.clock.Now()
	if whole = !l.fed || ledger.whole.IsZero() || now.Sub(ledger.whole) >= wholeEvery; whole {
		ledger.whole = now
	}
	return ledger, changed, whole
}

func newLedger() *ledger {
	return &ledger{blocks: map[string]*settledBlock{}, others: map[string]bool{}, changed: map[string]bool{}}
}

// drop forgets a Network without AddressBlocks: each sync reads everything about it.
func (l *ledgers) drop(key Key) {
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

// podChanged records which pod had an event, for the syncs of its Networks. If a pod makes
// wokenByPod panic, it may be on any Network.
func (r *networkKind) podChanged(obj any) (keys []Key) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	known := false
	defer func() {
		if known {
			r.ledgers.changed(keys, pod.Name)
		} else {
			r.ledgers.doubt(pod.Namespace)
		}
	}()
	keys = r.wokenByPod(pod)
	known = true
	return keys
}
