package reconcile

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// optionalKind knows whether the cluster has a kind that Pod2 does not install. Its
// informer retries while it runs, in the end twice a minute.
type optionalKind struct {
	informer cache.SharedIndexInformer
	synced   func() bool

	mu sync.Mutex
	// tried: a list or watch has failed, for any reason.
	tried bool
	// missing: the last list or watch found no such kind, when the informer's cache was
	// at this version. After a successful list the cache is at another version.
	missing bool
	version string
}

// watch must be called before the informer starts.
func (i *optionalKind) watch() error {
	return i.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.tried = true
		if !apierrors.IsNotFound(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		i.missing, i.version = true, i.informer.LastSyncResourceVersion()
	})
}

// known says whether the first list was answered. Syncs begin without waiting for it,
// because the cluster may never have the kind.
func (i *optionalKind) known() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.tried || i.synced()
}

// served says whether the API server had the kind at the last list or watch.
func (i *optionalKind) served() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.synced() && (!i.missing || i.informer.LastSyncResourceVersion() != i.version)
}
