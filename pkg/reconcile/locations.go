package reconcile

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network/addressslice"
)

// locations remembers, for each Network, the nodes of its addresses. So the cost of a sync
// depends on the changes, as with ledgers: it looks again at AddressBlocks that the cache
// shows in another version, and at pods with new events. It looks at everything at the first
// sync, every wholeEvery, after the addresses of a Node changed, and while no events are
// passed on.
type locations struct {
	mu    sync.Mutex
	clock clock.PassiveClock
	of    map[Key]*networkHosts
	// fed: events of pods and Nodes are passed on.
	fed bool
}

// networkHosts is the memory about one Network. Only its sync uses it, except for changed and
// whole.
type networkHosts struct {
	whole   time.Time       // when it was last looked at fully; zero: do it next
	changed map[string]bool // names of pods with new events
	blocks  map[string]*v1.AddressBlock
	// hosts and unlocated are those of addressslice.State.
	hosts     map[string]string
	unlocated map[string]bool
}

func newLocations(clock clock.PassiveClock) *locations {
	return &locations{clock: clock, of: map[Key]*networkHosts{}}
}

func newNetworkHosts() *networkHosts {
	return &networkHosts{changed: map[string]bool{}, blocks: map[string]*v1.AddressBlock{}, hosts: map[string]string{}, unlocated: map[string]bool{}}
}

func (l *locations) feed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fed = true
}

// podChanged records an event of a pod for those of the Networks that were synced.
func (l *locations) podChanged(keys []Key, pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if known := l.of[key]; known != nil {
			known.changed[pod] = true
		}
	}
}

// doubt makes all Networks be looked at fully.
func (l *locations) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.of {
		known.whole = time.Time{}
	}
}

func (l *locations) forget(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, key)
}

// take returns the memory about a Network and the pods to look at again. Call it before
// reading the caches.
func (l *locations) take(key Key) (known *networkHosts, changed map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	known = l.of[key]
	if known == nil || !l.fed || known.whole.IsZero() || now.Sub(known.whole) >= wholeEvery {
		known = newNetworkHosts()
		known.whole, l.of[key] = now, known
	}
	changed, known.changed = known.changed, map[string]bool{}
	return known, changed
}

// update brings the memory up to date with the AddressBlocks of the Network. host returns
// the address of the node of an entry's pod; "" if the node is not known yet, and false if
// the pod does not run.
func (l *networkHosts) update(blocks []*v1.AddressBlock, changed map[string]bool, host func(v1.AddressEntry) (string, bool)) {
	is := make(map[string]*v1.AddressBlock, len(blocks))
	for _, block := range blocks {
		is[block.Name] = block
	}
	for name, was := range l.blocks {
		if is[name] != was {
			for _, entry := range was.Spec.Entries {
				l.set(entry.Address, "", false)
			}
		}
	}
	for name, block := range is {
		for _, entry := range block.Spec.Entries {
			if l.blocks[name] != block || changed[entry.Pod] {
				at, runs := host(entry)
				l.set(entry.Address, at, runs)
			}
		}
	}
	l.blocks = is
}

func (l *networkHosts) set(address, host string, runs bool) {
	delete(l.hosts, address)
	delete(l.unlocated, address)
	switch {
	case !runs:
	case host == "":
		l.unlocated[address] = true
	default:
		l.hosts[address] = host
	}
}

// podChanged records which pod had an event, for the syncs of its Networks, and of those whose
// AddressBlocks name it: a user may have removed its annotations.
func (r *addressSliceKind) podChanged(pod *corev1.Pod) []Key {
	keys := locatedNetworks(pod)
	concerned := keys
	for _, block := range r.blocksNaming(pod.Namespace, pod.Name) {
		concerned = append(concerned, Key{KindAddressSlice, block.Namespace, block.Spec.Network})
	}
	r.locations.podChanged(concerned, pod.Name)
	return keys
}

// A Node wakes the slices of nodes, and those of the Networks of its pods.
func (r *addressSliceKind) nodeChanged(node *corev1.Node) []Key {
	keys := []Key{{KindAddressSlice, addressslice.NodesNamespace, ""}}
	for _, pod := range r.pods.by(byNode, node.Name) {
		keys = append(keys, locatedNetworks(pod)...)
	}
	r.locations.doubt()
	return keys
}
