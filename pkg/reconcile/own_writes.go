package reconcile

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// versionedStore is an informer's store.
type versionedStore interface {
	LastStoreSyncResourceVersion() string
	GetByKey(key string) (item any, exists bool, err error)
}

// ownWrites remembers, for each key, the writes of its syncs that the caches may not show
// yet (KEP-5504, KEP-5647). So no decision uses a view older than the controller's own
// writes. A key does not wait for the writes of other keys: preconditions guard its view
// against their changes.
type ownWrites struct {
	mu     sync.Mutex
	clock  clock.PassiveClock
	stores map[resource]versionedStore
	byKey  map[Key]*writes
	// seen is the newest version that each cache was at, and back says which versions
	// went back.
	seen, back map[resource]string
}

// aheadTold is how long a cache may lack our last write before the error names the remedy.
// Normally the write arrives within milliseconds, or within seconds under load.
const aheadTold = time.Minute

const remedy = "if etcd was restored to an older state, the cache will never show it: restart the controller"

type writes struct {
	versions map[resource]string
	// since is when a sync first had to wait for them.
	since time.Time
	// gone are the objects, by path, that the cache is about to drop, or does not have.
	gone map[resource]map[string]gone
}

// gone is an object that we deleted, or that our watch no longer selects after it lost a
// label.
type gone struct {
	uid types.UID
	// version of the object that the watch does not select. It is "" after a deletion,
	// because the answer to a deletion has no resourceVersion.
	version string
}

func (g gone) how() string {
	if g.version == "" {
		return "we deleted"
	}
	return "our watch no longer selects"
}

// shownBy says whether a cache still shows the object.
func (g gone) shownBy(obj any) bool {
	if g.version == "" {
		return alive(obj, g.uid)
	}
	o, ok := obj.(metav1.Object)
	return ok && o.GetUID() == g.uid && newer(g.version, o.GetResourceVersion())
}

func newOwnWrites(clock clock.PassiveClock) *ownWrites {
	return &ownWrites{clock: clock, stores: map[resource]versionedStore{}, byKey: map[Key]*writes{}, seen: map[resource]string{}, back: map[resource]string{}}
}

// wrote records the resourceVersion in the answer to a create, update or patch.
func (w *ownWrites) wrote(key Key, res resource, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	versions := w.of(key).versions
	if newer(version, versions[res]) {
		versions[res] = version
	}
}

// deleted records that the API server accepted the deletion of an object.
func (w *ownWrites) deleted(key Key, res resource, path string, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.goes(key, res, path, gone{uid: uid})
}

// hidden records a write to an object that the watch does not select, because a label is
// missing. The cache will never show this version. It also does not advance until another
// object of the resource changes, or the API server sends a bookmark, once a minute. So
// wait only until the cache has dropped the version that it may still have.
func (w *ownWrites) hidden(key Key, res resource, obj metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.goes(key, res, path(obj.GetNamespace(), obj.GetName()), gone{uid: obj.GetUID(), version: obj.GetResourceVersion()})
}

func (w *ownWrites) goes(key Key, res resource, path string, g gone) {
	entry := w.of(key)
	if entry.gone[res] == nil {
		entry.gone[res] = map[string]gone{}
	}
	entry.gone[res][path] = g
}

// ahead says which write of the key's syncs a cache does not show yet. It returns "" and
// forgets the writes if the caches show them all.
func (w *ownWrites) ahead(key Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	entry, ok := w.byKey[key]
	if !ok {
		return ""
	}
	why := w.unseen(entry)
	if why == "" {
		delete(w.byKey, key)
		return ""
	}
	if entry.since.IsZero() {
		entry.since = w.clock.Now()
	}
	if waits := w.clock.Since(entry.since); waits >= aheadTold {
		why = fmt.Sprintf("%s (for %s): %s", why, waits.Round(time.Second), remedy)
	}
	return why
}

// anyAhead says whether the caches do not show yet all writes for the objects of a kind.
func (w *ownWrites) anyAhead(kind string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, entry := range w.byKey {
		if key.Kind == kind && w.unseen(entry) != "" {
			return true
		}
	}
	return false
}

// unseen says which of the writes a cache does not show yet.
func (w *ownWrites) unseen(entry *writes) string {
	for res, version := range entry.versions {
		if seen := w.stores[res].LastStoreSyncResourceVersion(); newer(version, seen) {
			return fmt.Sprintf("the cache of %s is at resourceVersion %s, our last write at %s", res, seen, version)
		}
	}
	for res, paths := range entry.gone {
		for path, g := range paths {
			if obj, exists, _ := w.stores[res].GetByKey(path); exists && g.shownBy(obj) {
				return fmt.Sprintf("the cache of %s does not show yet that %s %s", res, g.how(), path)
			}
		}
	}
	return ""
}

func (w *ownWrites) of(key Key) *writes {
	entry, ok := w.byKey[key]
	if !ok {
		entry = &writes{versions: map[resource]string{}, gone: map[resource]map[string]gone{}}
		w.byKey[key] = entry
	}
	return entry
}

// newer compares resourceVersions of one resource. Versions that cannot be compared are
// not newer: a fake clientset has none, and its tracker answers before its watch does.
func newer(a, b string) bool {
	if b == "" || b == "0" { // an empty cache, after the first list from an API server without any writes
		return a != "" && a != "0"
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
