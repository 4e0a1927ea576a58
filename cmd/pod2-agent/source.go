//go:build linux

package main

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// entry is the stored part of an object: the value for decisions, and metadata for the cache.
type entry[T any] struct {
	metav1.ObjectMeta
	value  T
	counts bool
}

// source keeps the values of one kind of object.
type source[T any] struct {
	informer cache.SharedIndexInformer
	// told: the handlers got all objects of the first list.
	told cache.InformerSynced
}

// watch stores the value that of makes of each object. It calls set with each new value that counts, and
// del with each one that counts no more.
func watch[K metav1.Object, T any](informer cache.SharedIndexInformer, of func(K) (T, bool), set, del func(T)) source[T] {
	err := informer.SetTransform(func(obj any) (any, error) {
		object, ok := obj.(K)
		if !ok {
			return obj, nil // already an entry, or a tombstone
		}
		e := &entry[T]{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}}
		e.value, e.counts = of(object)
		return e, nil
	})
	change := func(was, is *entry[T]) {
		switch {
		case is != nil && is.counts && (was == nil || was.UID != is.UID || !was.counts || !reflect.DeepEqual(was.value, is.value)):
			set(is.value)
		case was != nil && was.counts && (is == nil || !is.counts):
			del(was.value)
		}
	}
	var registration cache.ResourceEventHandlerRegistration
	if err == nil {
		registration, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(is any) { change(nil, entryOf[T](is)) },
			UpdateFunc: func(was, is any) { change(entryOf[T](was), entryOf[T](is)) },
			DeleteFunc: func(was any) { change(entryOf[T](was), nil) },
		})
	}
	if err != nil {
		panic(fmt.Sprintf("cannot set up an informer that has not started: %v", err))
	}
	return source[T]{informer, registration.HasSynced}
}

// entryOf an object of a handler, which may be a tombstone.
func entryOf[T any](obj any) *entry[T] {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	e, _ := obj.(*entry[T])
	return e
}

func (s source[T]) values() []T {
	var list []T
	for _, obj := range s.informer.GetStore().List() {
		if e, ok := obj.(*entry[T]); ok && e.counts {
			list = append(list, e.value)
		}
	}
	return list
}
