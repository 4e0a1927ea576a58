package model

import (
	"github.com/pod2/pod2/test/apiserver"
)

// World is the API server as users, kubelets and the garbage collector see it.
type World struct {
	m *machine
	s *state
}

// Get returns a copy of an object, nil if there is none.
func Get[T apiserver.Object](w *World, k Kind, name string) (found T) {
	if _, o := w.s.find(k, name); o != nil {
		return clone[T](o)
	}
	return found
}

// Create creates an object.
func (w *World) Create(k Kind, value apiserver.Object) {
	if _, old := w.s.find(k, value.GetName()); old != nil {
		panic(k.String() + " " + value.GetName() + " exists")
	}
	w.m.created(w.s, k, value)
}

// Put stores an existing object, with its status.
func (w *World) Put(k Kind, value apiserver.Object) {
	_, old := w.s.find(k, value.GetName())
	k.resource().Settle(old.value, value)
	w.m.stored(w.s, k, value)
}

// Delete deletes an object by name, as a user does.
func (w *World) Delete(k Kind, name string) {
	if _, old := w.s.find(k, name); old != nil {
		w.m.deleted(w.s, old)
	}
}

// vanish removes a pod without its kubelet's confirmation, because its node is gone.
func (w *World) vanish(name string) {
	if _, old := w.s.find(Pods, name); old != nil {
		w.s.nextVersion(Pods)
		w.s.remove(old)
	}
}
