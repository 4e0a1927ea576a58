package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// ClaimProtection is the finalizer that admission puts on every claim.
const ClaimProtection = "kubernetes.io/pvc-protection"

// Create stores what is created. The server is locked.
func (s *Server) Create(by string, r *Resource, namespace string, obj Object) (Object, error) {
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
	obj.SetUID(s.newUID(obj))
	obj.SetCreationTimestamp(s.now())
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetGeneration(0)
	if r.generation {
		obj.SetGeneration(1)
	}
	if r.status {
		part(obj, "Status").SetZero()
	}
	SetDefaults(obj)
	switch obj := obj.(type) {
	case *corev1.Pod:
		obj.Status.Phase = corev1.PodPending
		obj.Spec.TerminationGracePeriodSeconds = ptr.To(ptr.Deref(obj.Spec.TerminationGracePeriodSeconds, 30))
		if len(obj.Spec.SchedulingGates) > 0 {
			obj.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
				Message: "Scheduling is blocked due to non-empty scheduling gates",
			}}
		}
	case *corev1.PersistentVolumeClaim:
		obj.Status.Phase = corev1.ClaimPending
		obj.Finalizers = append(obj.Finalizers, ClaimProtection)
	}
	return s.Put(by, r, obj), nil
}

// Update has the body of a PUT, or what a patch made of the object. The server is locked.
func (s *Server) Update(by string, r *Resource, sub string, old, body Object, put bool) (Object, error) {
	name := old.GetName()
	if uid := body.GetUID(); put && uid != "" && uid != old.GetUID() {
		return nil, conflict(r, name, "Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, old.GetUID())
	}
	switch version := body.GetResourceVersion(); {
	case version == "" && r.custom:
		return nil, apierrors.NewInvalid(r.GVK().GroupKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	case version != "" && version != old.GetResourceVersion():
		return nil, conflict(r, name, "the object has been modified; please apply your changes to the latest version and try again")
	}
	if uid := body.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, apierrors.NewInvalid(r.GVK().GroupKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), string(uid), "field is immutable"),
		})
	}
	next := body.DeepCopyObject().(Object)
	SetDefaults(next)
	if err := s.apart(r, sub, old, next); err != nil {
		return nil, err
	}
	next.SetNamespace(old.GetNamespace())
	next.SetUID(old.GetUID())
	next.SetResourceVersion(old.GetResourceVersion())
	next.SetGeneration(old.GetGeneration())
	next.SetCreationTimestamp(old.GetCreationTimestamp())
	next.SetDeletionTimestamp(old.GetDeletionTimestamp())
	next.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	next.SetManagedFields(nil)
	next.GetObjectKind().SetGroupVersionKind(r.GVK())
	verb := http.MethodPatch
	if put {
		verb = http.MethodPut
	}
	s.mutate(kindOf(verb, r, sub), next)
	if err := validate(r, sub, old, next); err != nil {
		return nil, err
	}
	if err := s.refuse(by, kindOf(verb, r, sub), r, old, next); err != nil {
		return nil, err
	}
	return s.Store(by, r, old, next), nil
}

// apart takes from a body what its subresource writes, and the rest from what is
// stored.
func (s *Server) apart(r *Resource, sub string, old, next Object) error {
	switch {
	case sub == "" && r.status:
		part(next, "Status").Set(part(old.DeepCopyObject().(Object), "Status"))
	case sub == "":
	case sub == "status" && r.status:
		status := part(next.DeepCopyObject().(Object), "Status")
		labels, annotations := next.GetLabels(), next.GetAnnotations()
		restore(next, old)
		part(next, "Status").Set(status)
		if !r.custom {
			next.SetLabels(labels)
			next.SetAnnotations(annotations)
		}
	case sub == "resize" && r.Resource == "pods":
		wanted := next.DeepCopyObject().(*corev1.Pod).Spec.Containers
		restore(next, old)
		pod := next.(*corev1.Pod)
		for i := range pod.Spec.Containers {
			if j := slices.IndexFunc(wanted, func(c corev1.Container) bool { return c.Name == pod.Spec.Containers[i].Name }); j >= 0 {
				pod.Spec.Containers[i].Resources = wanted[j].Resources
			}
		}
	default:
		return apierrors.NewNotFound(r.GroupResource(), old.GetName())
	}
	return nil
}

func restore(next, old Object) {
	for _, name := range []string{"ObjectMeta", "Spec", "Status"} {
		part(next, name).Set(part(old.DeepCopyObject().(Object), name))
	}
}

// Delete removes an object, or marks it when a finalizer or a kubelet keeps it. The
// server is locked.
func (s *Server) Delete(by string, r *Resource, old Object, o metav1.DeleteOptions) (Object, error) {
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() {
			return nil, conflict(r, old.GetName(), "Precondition failed: UID in precondition: %s, UID in object meta: %s", *p.UID, old.GetUID())
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return nil, conflict(r, old.GetName(), "Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", *p.ResourceVersion, old.GetResourceVersion())
		}
	}
	if err := s.refuse(by, kindOf(http.MethodDelete, r, ""), r, old, nil); err != nil {
		return nil, err
	}
	next := old.DeepCopyObject().(Object)
	finalizers := next.GetFinalizers()
	if policy := o.PropagationPolicy; policy != nil {
		kept := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
			return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		})
		switch *policy {
		case metav1.DeletePropagationOrphan:
			kept = append(kept, metav1.FinalizerOrphanDependents)
		case metav1.DeletePropagationForeground:
			kept = append(kept, metav1.FinalizerDeleteDependents)
		}
		next.SetFinalizers(kept)
	}
	seconds := int64(0)
	if pod, ok := next.(*corev1.Pod); ok && pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		seconds = ptr.Deref(o.GracePeriodSeconds, *pod.Spec.TerminationGracePeriodSeconds)
	}
	if old.GetDeletionTimestamp() == nil {
		next.SetDeletionTimestamp(ptr.To(metav1.NewTime(s.now().Add(time.Duration(seconds) * time.Second))))
		next.SetDeletionGracePeriodSeconds(&seconds)
		if next.GetGeneration() > 0 {
			next.SetGeneration(next.GetGeneration() + 1)
		}
	} else if seconds < Grace(old) {
		next.SetDeletionGracePeriodSeconds(&seconds)
	}
	return s.Store(by, r, old, next), nil
}

func conflict(r *Resource, name, format string, args ...any) error {
	return apierrors.NewConflict(r.GroupResource(), name, fmt.Errorf(format, args...))
}
