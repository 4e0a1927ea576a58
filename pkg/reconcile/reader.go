package reconcile

import (
	"cmp"
	"encoding/binary"
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
	sortByName(objects)
	return objects
}

// sortByName sorts thousands of objects. Their names often differ only in a few bytes after a common
// prefix, as web-0 and web-9999. It compares these bytes as a number, and reads the names again
// only if the numbers are equal. Without a common prefix it is a little slower than plan.ByName.
func sortByName[T metav1.Object](objects []T) {
	if len(objects) == 0 {
		return
	}
	common := objects[0].GetName()
	for _, o := range objects {
		name, n := o.GetName(), 0
		for n < min(len(common), len(name)) && common[n] == name[n] {
			n++
		}
		common = common[:n]
	}
	type item struct {
		head   uint64 // the first bytes after the common prefix
		object T
	}
	items := make([]item, len(objects))
	for i, o := range objects {
		var head [8]byte
		copy(head[:], o.GetName()[len(common):])
		items[i] = item{binary.BigEndian.Uint64(head[:]), o}
	}
	slices.SortFunc(items, func(a, b item) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return plan.ByName(a.object, b.object)
	})
	for i := range items {
		objects[i] = items[i].object
	}
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
