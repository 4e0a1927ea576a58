package reconcile

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/pod2/pod2/pkg/plan"
)

// reader reads the cache of one resource. A cache returns no errors. An unknown index is
// a bug, which the first sync in any test reveals.
type reader[T metav1.Object] struct{ indexer cache.Indexer }

// get returns the zero value, nil, if the cache does not have the object.
func (c reader[T]) get(namespace, name string) (obj T) {
	if found, exists, err := c.indexer.GetByKey(path(namespace, name)); err == nil && exists {
		obj, _ = found.(T)
	}
	return obj
}

// by returns the objects that an index holds under a value, in no order.
func (c reader[T]) by(index, value string) []T {
	objects, err := c.indexer.ByIndex(index, value)
	if err != nil {
		panic(err)
	}
	typed := make([]T, 0, len(objects))
	for _, obj := range objects {
		typed = append(typed, obj.(T))
	}
	return typed
}

// sorted is by, in name order.
func (c reader[T]) sorted(index, value string) []T {
	objects := c.by(index, value)
	slices.SortFunc(objects, plan.ByName)
	return objects
}

// all returns all objects, in no order.
func (c reader[T]) all() []T {
	var typed []T
	for _, obj := range c.indexer.List() {
		typed = append(typed, obj.(T))
	}
	return typed
}

// at is the newest version that the cache shows.
func (c reader[T]) at() string { return c.indexer.LastStoreSyncResourceVersion() }

// in returns every object of a namespace, in name order. The cache of pods has no index for it.
func (c reader[T]) in(namespace string) []T { return c.sorted(cache.NamespaceIndex, namespace) }
