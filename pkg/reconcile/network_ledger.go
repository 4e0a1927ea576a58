package reconcile

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
)

// podsOfNetwork returns the pods that ask for the Network or publish one of its
// addresses, and the pods named in its AddressBlocks. It leaves out pods that settle their
// entries: Known has the necessary facts about them. The AddressBlocks must be read before.
func (r *networkKind) podsOfNetwork(key Key, blocks []*v1.AddressBlock) (map[*v1.AddressBlock]*network.Known, []*corev1.Pod, time.Duration) {
	l, changed, whole := r.ledgers.take(key)
	listedAt := r.pods.at()
	r.readBlocks(key, l, blocks)
	if whole {
		r.compare(key, l)
		clear(changed)
	}
	// A pod found by a live read is not in the cache, and no event reports its deletion.
	sighted := r.writePods.unwatched.names(key.Namespace)
	maps.Copy(changed, sighted)
	for name := range changed {
		l.others[name] = true
		for _, b := range r.naming(key, l, name) {
			for _, i := range b.Of(name) {
				b.unsettle(int(i))
			}
		}
	}
	pods := map[string]*corev1.Pod{}
	for _, b := range l.blocks {
		r.settle(key, b, pods, sighted)
	}
	if whole {
		r.listOthers(key, l)
	}
	for name := range l.others {
		if pod := r.pods.get(key.Namespace, name); pod != nil && concerns(pod, key.Name) && !r.settles(key, l, pod) {
			pods[name] = pod
		} else {
			delete(l.others, name)
		}
	}
	for name := range sighted { // the newer version counts
		if pod := r.pods.get(key.Namespace, name); pod != nil {
			pods[name] = pod
		}
	}
	for _, pod := range r.pods.by(byWaiting, key.path()) {
		pods[pod.Name] = pod
	}
	// Events may be late: an older version of a pod in the State must not settle an entry.
	for name, pod := range pods {
		for _, b := range r.naming(key, l, name) {
			b.unsettleBut(name, pod)
		}
	}
	known := make(map[*v1.AddressBlock]*network.Known, len(l.blocks))
	for _, b := range l.blocks {
		known[b.Block()] = &b.Known
	}
	if len(blocks) == 0 {
		r.ledgers.drop(key)
	}
	all, again := r.writePods.unwatched.addTo(key, slices.Collect(maps.Values(pods)), listedAt, func(pod *corev1.Pod) bool {
		_, publishes := attachment.Published(pod)[key.Name]
		// If a live read found the pod just now, its version would win over the cached
		// one, which is left out here.
		return sighted[pod.Name] && (publishes || len(r.naming(key, l, pod.Name)) > 0)
	})
	return known, all, again
}

// readBlocks updates the remembered AddressBlocks from the cache. A pod still settles an
// entry that is unchanged in the next version, if the cache still has that version of the
// pod. A pod that lost its entry may still publish the address.
func (r *networkKind) readBlocks(key Key, l *ledger, blocks []*v1.AddressBlock) {
	for _, block := range blocks {
		was := l.blocks[block.Name]
		if was != nil && was.Block() == block {
			continue
		}
		delete(l.blocks, block.Name)
		page, ok := network.Read(block)
		if !ok {
			l.lost(was)
			r.ledgers.forget(key.Namespace, block.Name)
			continue
		}
		r.ledgers.keep(page)
		is := &settledBlock{Known: network.Known{Page: page}, pods: make([]*corev1.Pod, page.Size())}
		l.blocks[block.Name] = is
		if was == nil {
			continue
		}
		for i, pod := range was.pods {
			at, same := page.Find(was.Page, i)
			switch {
			case !same || pod != nil && r.pods.get(key.Namespace, pod.Name) != pod:
				l.others[was.PodName(i)] = true
			case pod != nil:
				is.settle(at, pod, was.Bits(i))
			}
		}
	}
	for name, b := range l.blocks {
		if _, present := slices.BinarySearchFunc(blocks, name, func(block *v1.AddressBlock, name string) int {
			return strings.Compare(block.Name, name)
		}); !present {
			l.lost(b)
			delete(l.blocks, name)
			r.ledgers.forget(key.Namespace, name)
		}
	}
}

// lost marks the pods of a deleted AddressBlock to be looked at.
func (l *ledger) lost(b *settledBlock) {
	if b == nil {
		return
	}
	for i := range b.pods {
		l.others[b.PodName(i)] = true
	}
}

// compare drops the memory of pods that differ from the cache.
func (r *networkKind) compare(key Key, l *ledger) {
	for _, b := range l.blocks {
		for i, pod := range b.pods {
			if pod != nil && r.pods.get(key.Namespace, pod.Name) != pod {
				b.unsettle(i)
			}
		}
	}
}

// listOthers finds the pods that ask for the Network or publish one of its addresses but
// settle no entry.
func (r *networkKind) listOthers(key Key, l *ledger) {
	settled := map[*corev1.Pod]bool{}
	for _, b := range l.blocks {
		for _, pod := range b.pods {
			settled[pod] = true
		}
	}
	l.others = map[string]bool{}
	for _, pod := range r.pods.by(byNetwork, key.path()) {
		if !settled[pod] {
			l.others[pod.Name] = true
		}
	}
}

// settle checks the entries that are not known to be settled. It adds the pods that do
// not settle their entries to pods.
func (r *networkKind) settle(key Key, b *settledBlock, pods map[string]*corev1.Pod, sighted map[string]bool) {
	for i, settledBy := range b.pods {
		if settledBy != nil {
			continue
		}
		name := b.PodName(i)
		pod := r.pods.get(key.Namespace, name)
		if pod == nil {
			continue
		}
		if bits, settled := b.Settles(i, pod); settled && !sighted[name] {
			b.settle(i, pod, bits)
		} else {
			pods[name] = pod
		}
	}
}

// naming returns the AddressBlocks with entries of a pod.
func (r *networkKind) naming(key Key, l *ledger, pod string) []*settledBlock {
	var blocks []*settledBlock
	for _, block := range r.blocksNaming(key.Namespace, pod) {
		if b := l.blocks[block.Name]; b != nil {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func (r *networkKind) settles(key Key, l *ledger, pod *corev1.Pod) bool {
	return slices.ContainsFunc(r.naming(key, l, pod.Name), func(b *settledBlock) bool {
		return slices.Contains(b.pods, pod)
	})
}

func concerns(pod *corev1.Pod, name string) bool {
	return slices.Contains(networksOfPod(pod), path(pod.Namespace, name))
}
