package reconcile

import (
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

// item is an object to be sorted. The head has the first bytes after the common prefix of all names, as a number.
type item[T metav1.Object] struct {
	head   uint64
	object T
}

// sortByName sorts thousands of objects. Their names often differ only in a few bytes after a common
// prefix, as web-0 and web-9999.
func sortByName[T metav1.Object](objects []T) {
	if len(objects) == 0 {
		return
	}
	names, common := make([]string, len(objects)), objects[0].GetName()
	for i, o := range objects {
		name, n := o.GetName(), 0
		for n < min(len(common), len(name)) && common[n] == name[n] {
			n++
		}
		names[i], common = name, common[:n]
	}
	items := make([]item[T], len(objects))
	for i, name := range names {
		var head [8]byte
		copy(head[:], name[len(common):])
		items[i] = item[T]{binary.BigEndian.Uint64(head[:]), objects[i]}
	}
	for i, sorted := range byHead(items) {
		objects[i] = sorted.object
	}
}

// byHead is a radix sort, from the last byte of the head to the first. It skips bytes that all items share:
// of web-0 to web-9999, only four differ. Items with equal heads are sorted by the whole name.
func byHead[T metav1.Object](items []item[T]) []item[T] {
	other := make([]item[T], len(items))
	for shift := 0; shift < 64; shift += 8 {
		var begin [257]int // at b, the place of the next item with byte b; first, at b+1, how many items have byte b
		for i := range items {
			begin[items[i].head>>shift&0xff+1]++
		}
		if begin[items[0].head>>shift&0xff+1] == len(items) {
			continue
		}
		for b := range 256 {
			begin[b+1] += begin[b]
		}
		for i := range items {
			at := &begin[items[i].head>>shift&0xff]
			other[*at] = items[i]
			*at++
		}
		items, other = other, items
	}
	for start, end := 0, 0; start < len(items); start = end {
		for end = start + 1; end < len(items) && items[end].head == items[start].head; end++ {
		}
		if end-start > 1 {
			slices.SortFunc(items[start:end], func(a, b item[T]) int { return plan.ByName(a.object, b.object) })
		}
	}
	return items
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
