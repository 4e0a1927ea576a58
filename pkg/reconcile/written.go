package reconcile

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// resource names an informer's objects; resourceVersions compare within one.
type resource string

const (
	networksResource  resource = "networks"
	blocksResource    resource = "addressblocks"
	pod2sResource     resource = "pod2s"
	podsResource      resource = "pods"
	revisionsResource resource = "controllerrevisions"
	claimsResource    resource = "persistentvolumeclaims"
	cronTabsResource  resource = "crontabs"
	cronJobsResource  resource = "cronjobs"
	servicesResource  resource = "services"
	slicesResource    resource = "endpointslices"

	vnisResource        resource = "vnis"
	definitionsResource resource = "network-attachment-definitions"
	nodesResource       resource = "nodes"
)

// versionedStore is an informer's store.
type versionedStore interface {
	LastStoreSyncResourceVersion() string
	GetByKey(key string) (item any, exists bool, err error)
}

// written remembers, for each key, what its syncs wrote and the caches may not
// show yet (KEP-5504, KEP-5647), so that no decision is made on a view older than
// one's own writes. Other keys' writes do not hold a key up: what they change in
// its view is guarded by preconditions.
type written struct {
	mu     sync.Mutex
	stores map[resource]versionedStore
	byKey  map[Key]*writes
}

type writes struct {
	versions map[resource]string
	// deleted objects, by path; an answer to a deletion has no resourceVersion.
	deleted map[resource]map[string]types.UID
}

func newWritten(stores map[resource]versionedStore) *written {
	return &written{stores: stores, byKey: map[Key]*writes{}}
}

// wrote records the resourceVersion that a create, update or patch answered.
func (w *written) wrote(key Key, res resource, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	versions := w.of(key).versions
	if newer(version, versions[res]) {
		versions[res] = version
	}
}

// deleted records that the API server took the deletion of an object.
func (w *written) deleted(key Key, res resource, path string, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	entry := w.of(key)
	if entry.deleted[res] == nil {
		entry.deleted[res] = map[string]types.UID{}
	}
	entry.deleted[res][path] = uid
}

// ahead says which write of the key's syncs a cache does not show yet, "" if the
// caches show them all; then they are forgotten.
func (w *written) ahead(key Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	entry, ok := w.byKey[key]
	if !ok {
		return ""
	}
	for res, version := range entry.versions {
		if seen := w.stores[res].LastStoreSyncResourceVersion(); newer(version, seen) {
			return fmt.Sprintf("the cache of %s is at resourceVersion %s, our last write at %s", res, seen, version)
		}
	}
	for res, paths := range entry.deleted {
		for path, uid := range paths {
			if obj, exists, _ := w.stores[res].GetByKey(path); exists && alive(obj, uid) {
				return fmt.Sprintf("the cache of %s does not show yet that we deleted %s", res, path)
			}
		}
	}
	delete(w.byKey, key)
	return ""
}

func (w *written) of(key Key) *writes {
	entry, ok := w.byKey[key]
	if !ok {
		entry = &writes{versions: map[resource]string{}, deleted: map[resource]map[string]types.UID{}}
		w.byKey[key] = entry
	}
	return entry
}

// newer compares resourceVersions of one resource. What does not compare is not
// newer: a fake clientset has none, and its tracker answers before its watch does.
func newer(a, b string) bool {
	if b == "" {
		return a != ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
