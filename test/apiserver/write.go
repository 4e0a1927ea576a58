package apiserver

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Create stores a new object. The server is locked.
func (s *Server) Create(by string, r *Resource, namespace string, obj Object) (Object, error) {
	obj, err := s.DryRun(by, r, namespace, obj)
	if err != nil {
		return nil, err
	}
	r.Begin(obj, s.newUID(obj), s.now())
	return s.Put(by, r, obj), nil
}

// DryRun returns the object that Create would store. The server is locked.
func (s *Server) DryRun(by string, r *Resource, namespace string, obj Object) (Object, error) {
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(fmt.Sprintf("%s%05d", obj.GetGenerateName(), s.version))
	}
	if obj.GetResourceVersion() != "" {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "resourceVersion should not be set on objects to be created",
		}}
	}
	obj = obj.DeepCopyObject().(Object)
	obj.SetNamespace(namespace)
	SetDefaults(obj)
	s.mutate("POST "+r.Resource, obj)
	if err := s.refuse(by, "POST "+r.Resource, r, nil, obj); err != nil {
		return nil, err
	}
	if s.Get(r, namespace, obj.GetName()) != nil {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), obj.GetName())
	}
	return obj, nil
}

// Update stores the body of a PUT, or the result of a patch. The server is locked.
func (s *Server) Update(by string, r *Resource, sub string, old, body Object, put bool) (Object, error) {
	verb := http.MethodPatch
	if put {
		verb = http.MethodPut
	}
	kind := kindOf(verb, r, sub)
	next, err := r.Updated(sub, old, body, put, func(obj Object) { s.mutate(kind, obj) })
	if err != nil {
		return nil, err
	}
	if err := s.refuse(by, kind, r, old, next); err != nil {
		return nil, err
	}
	return s.Store(by, r, old, next), nil
}

// Delete removes an object, or marks it for deletion if a finalizer or a kubelet keeps it.
// The server is locked.
func (s *Server) Delete(by string, r *Resource, old Object, o metav1.DeleteOptions) (Object, error) {
	if err := r.Holds(old, o.Preconditions); err != nil {
		return nil, err
	}
	if err := s.refuse(by, kindOf(http.MethodDelete, r, ""), r, old, nil); err != nil {
		return nil, err
	}
	return s.Store(by, r, old, r.Deleted(old, o, s.now())), nil
}
