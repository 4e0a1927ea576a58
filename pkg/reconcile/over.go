package reconcile

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/network"
)

// over remembers the pods that a live read confirmed to be over, until a sync of the
// key is done: that stays true (see network.Over). Without it a sync that needs
// thirty answers from an API server that refuses a third of all requests would begin
// with the first of them each time, and hardly ever get to its write.
type over struct {
	mu    sync.Mutex
	byKey map[Key]map[types.UID]bool
}

func newOver() *over { return &over{byKey: map[Key]map[types.UID]bool{}} }

// retain forgets all pods of the key but those that are asked about now, and returns
// of these the ones that are not known to be over.
func (o *over) retain(key Key, asked []network.PodRef) (unknown []network.PodRef) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, is := o.byKey[key], map[types.UID]bool{}
	for _, ref := range asked {
		if was[ref.UID] {
			is[ref.UID] = true
		} else {
			unknown = append(unknown, ref)
		}
	}
	o.put(key, is)
	return unknown
}

func (o *over) confirmed(key Key, uid types.UID) {
	if uid == "" {
		return // of no pod: somebody edited an entry
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKey[key] == nil {
		o.byKey[key] = map[types.UID]bool{}
	}
	o.byKey[key][uid] = true
}

// forget is called when a sync is done.
func (o *over) forget(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byKey, key)
}

func (o *over) put(key Key, uids map[types.UID]bool) {
	if len(uids) == 0 {
		delete(o.byKey, key)
		return
	}
	o.byKey[key] = uids
}
