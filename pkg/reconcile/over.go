package reconcile

import (
	"sync"

	"github.com/pod2/pod2/pkg/network"
)

// over remembers the pods that a live read confirmed to be over, until a sync of the
// key is done: that stays true (see network.Over). Without it a sync that needs
// thirty answers from an API server that refuses a third of all requests would begin
// with the first of them each time, and hardly ever get to its write.
type over struct {
	mu    sync.Mutex
	byKey map[Key]map[network.PodRef]bool
}

func newOver() *over { return &over{byKey: map[Key]map[network.PodRef]bool{}} }

// retain forgets all pods of the key but those that are asked about now, and returns
// of these the ones that are not known to be over.
func (o *over) retain(key Key, asked []network.PodRef) (unknown []network.PodRef) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, is := o.byKey[key], map[network.PodRef]bool{}
	for _, ref := range asked {
		if was[ref] {
			is[ref] = true
		} else {
			unknown = append(unknown, ref)
		}
	}
	o.put(key, is)
	return unknown
}

func (o *over) confirmed(key Key, ref network.PodRef) {
	if ref.UID == "" {
		return // somebody edited an entry
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKey[key] == nil {
		o.byKey[key] = map[network.PodRef]bool{}
	}
	o.byKey[key][ref] = true
}

// forget is called when a sync is done.
func (o *over) forget(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byKey, key)
}

func (o *over) put(key Key, refs map[network.PodRef]bool) {
	if len(refs) == 0 {
		delete(o.byKey, key)
		return
	}
	o.byKey[key] = refs
}
