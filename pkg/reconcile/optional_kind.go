package reconcile

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// optionalKind knows whether the cluster has a kind that is not ours to install. Its
// informer tries again for as long as it runs, twice a minute in the end.
type optionalKind struct {
	informer cache.SharedIndexInformer
	synced   func() bool

	mu sync.Mutex
	// tried: a list or watch has failed, for whatever reason.
	tried bool
	// missing: the last list or watch found no such kind, when the informer's cache
	// was at this version. It is at another as soon as there was a list since.
	missing bool
	version string
}

// watch is to be called before the informer starts.
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

// known says whether the first list was answered. Nobody waits for it before the syncs begin: the
// cluster may never have the kind.
func (i *optionalKind) known() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.tried || i.synced()
}

func (i *optionalKind) now() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.synced() && (!i.missing || i.informer.LastSyncResourceVersion() != i.version)
}
