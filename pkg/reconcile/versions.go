package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// CompareVersions compares the API server's resourceVersion with that of a cache. Call it
// now and then, in standbys too. The caches alone cannot detect that etcd was restored to
// an older state. A watch is silent if it starts at a version that the API server has yet
// to reach. If the API server does not answer, that is only logged: Check does not report
// it.
func (r *Reconciler) CompareVersions(ctx context.Context) {
	// Read before the request, so the answer is normally newer.
	seen := r.ownWrites.newest(networksResource)
	// A list without a resourceVersion is a quorum read: it is never older than earlier
	// answers.
	list, err := r.live.networks(r.settings.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The API server's resourceVersion is unknown", "reason", err)
		return
	}
	r.ownWrites.answered(networksResource, seen, list.ResourceVersion)
}

// newest is the newest version that the cache has been at.
func (w *ownWrites) newest(res resource) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.saw(res)
}

// saw is newest, with the lock held.
func (w *ownWrites) saw(res resource) string {
	if is := w.stores[res].LastStoreSyncResourceVersion(); newer(is, w.seen[res]) {
		w.seen[res] = is
	}
	return w.seen[res]
}

// answered records the version of a live read, and the one that the cache had seen before
// it.
func (w *ownWrites) answered(res resource, seen, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if version != "" && newer(seen, version) {
		w.back[res] = fmt.Sprintf("%s from %s to %s", res, seen, version)
	}
}

// check returns an error if versions went back, in a cache or in the answer of a live
// read. They only increase, unless etcd was restored to an older state. Then the caches
// never show the changes between the two states, and a sync waits forever for its own
// last write. So a version that went back stays an error, even if versions increase
// again.
func (w *ownWrites) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for res, store := range w.stores {
		seen, is := w.saw(res), store.LastStoreSyncResourceVersion()
		if is != "" && newer(seen, is) && w.back[res] == "" {
			w.back[res] = fmt.Sprintf("%s from %s to %s", res, seen, is)
		}
	}
	if len(w.back) == 0 {
		return nil
	}
	var back []string
	for _, text := range w.back {
		back = append(back, text)
	}
	slices.Sort(back)
	return fmt.Errorf("resourceVersions went back (%s): etcd was restored to an older state, so the caches are wrong: restart the controller",
		strings.Join(back, ", "))
}
