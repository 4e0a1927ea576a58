package reconcile

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
)

// wholeEvery is how often a Network is looked at as a whole, whatever events told.
const wholeEvery = 10 * time.Minute

// ledgers remembers, of each Network, its blocks as they were read and the pods that
// were found to settle their entries, so that a sync costs what changed and not what
// the Network holds. It is a memory of the caches and not of the world: what it
// has is dropped as soon as the cache shows another version of the block, or an
// event of the pod came; and all of it is compared with the caches when a Network is
// first looked at, every wholeEvery, and each time while nobody passes events on.
//
// An event that comes late leaves an entry settled by a pod as it was. Nothing is
// taken from anybody for that: a settled entry is one to do nothing about.
type ledgers struct {
	mu    sync.Mutex
	clock clock.PassiveClock
	// pages by path of the block, of all Networks, since others look at them too.
	pages map[string]*network.Page
	of    map[Key]*ledger
	// fed says that events of pods are passed on.
	fed bool
}

// ledger is what is remembered of one Network. Only changed and whole are used by others than
// the one sync of it.
type ledger struct {
	whole  time.Time // when it was last looked at as a whole; zero: it shall be
	blocks map[string]*settledBlock
	// others are names of pods that ask for the Network or publish an address of it,
	// and may not settle an entry.
	others map[string]bool
	// changed are names of the pods that there were events of.
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

// changed notes the event of a pod for the Networks among the keys that it concerns.
// One that was never looked at will be looked at as a whole.
func (l *ledgers) changed(keys []Key, pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if ledger := l.of[key]; ledger != nil {
			ledger.changed[pod] = true
		}
	}
}

// doubt has all Networks of a namespace looked at as a whole.
func (l *ledgers) doubt(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, ledger := range l.of {
		if key.Namespace == namespace {
			ledger.whole = time.Time{}
		}
	}
}

// take returns the ledger of a Network, and the pods whose events are to be
// regarded now. It comes before the caches are read.
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

// drop forgets a Network without blocks: all that is on it is looked at each time.
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

// page is what a block says; nil if it is not one of ours.
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

// unsettleBut unsettles the entries that name a pod, but for what this version of it
// settles.
func (b *settledBlock) unsettleBut(name string, pod *corev1.Pod) {
	for _, i := range b.Of(name) {
		if b.pods[i] != pod {
			b.unsettle(int(i))
		}
	}
}

// podChanged notes which pod there was an event of, for the syncs of its Networks. A pod
// that makes wokenByPod panic is one of any Network.
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
