package apiserver

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// The effect of a write on an object depends only on the write and the object. So these
// functions serve a server with one store, and a model with many.

// ClaimProtection is the finalizer that admission adds to every PVC.
const ClaimProtection = "kubernetes.io/pvc-protection"

// Begin sets the fields of a new object that the server sets, and removes the fields that a
// client may not set.
func (r *Resource) Begin(obj Object, uid types.UID, at metav1.Time) {
	obj.SetUID(uid)
	obj.SetCreationTimestamp(at)
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
}

// Updated returns the object to store for the body of a PUT or the result of a patch,
// changed by admission.
func (r *Resource) Updated(sub string, old, body Object, put bool, mutate func(Object)) (Object, error) {
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
	if err := r.apart(sub, old, next); err != nil {
		return nil, err
	}
	next.SetNamespace(old.GetNamespace())
	next.SetUID(old.GetUID())
	next.SetResourceVersion(old.GetResourceVersion())
	next.SetGeneration(old.GetGeneration())
	next.SetCreationTimestamp(old.GetCreationTimestamp())
	next.SetDeletionTimestamp(old.GetDeletionTimestamp())
	next.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	next.SetManagedFields(managedFields(old, body))
	next.GetObjectKind().SetGroupVersionKind(r.GVK())
	mutate(next)
	if err := validate(r, sub, old, next); err != nil {
		return nil, err
	}
	return next, nil
}

// managedFields of the next version are those of the old one, because this server records none,
// unless the body clears them with one empty entry.
func managedFields(old, body Object) []metav1.ManagedFieldsEntry {
	if entries := body.GetManagedFields(); len(entries) == 1 && entries[0].Operation == "" {
		return nil
	}
	return old.GetManagedFields()
}

// apart keeps the part of a body that its subresource may write, and takes the rest from
// the stored object.
func (r *Resource) apart(sub string, old, next Object) error {
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

// Holds returns a conflict if a precondition is not met.
func (r *Resource) Holds(old Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if p.UID != nil && *p.UID != old.GetUID() {
		return conflict(r, old.GetName(), "Precondition failed: UID in precondition: %s, UID in object meta: %s", *p.UID, old.GetUID())
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
		return conflict(r, old.GetName(), "Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", *p.ResourceVersion, old.GetResourceVersion())
	}
	return nil
}

// Deleted returns an object that is marked for deletion.
func (r *Resource) Deleted(old Object, o metav1.DeleteOptions, at metav1.Time) Object {
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
		next.SetDeletionTimestamp(ptr.To(metav1.NewTime(at.Add(time.Duration(seconds) * time.Second))))
		next.SetDeletionGracePeriodSeconds(&seconds)
		if next.GetGeneration() > 0 {
			next.SetGeneration(next.GetGeneration() + 1)
		}
	} else if seconds < Grace(old) {
		next.SetDeletionGracePeriodSeconds(&seconds)
	}
	return next
}

// Settle sets the generation of an object to store. It says whether the write changes the
// object, and whether nothing keeps the object any more.
func (r *Resource) Settle(old, next Object) (changed, gone bool) {
	if r.generation && !sameContent(r, old, next) {
		next.SetGeneration(old.GetGeneration() + 1)
	}
	if equality.Semantic.DeepEqual(old, next) {
		return false, false
	}
	return true, Gone(next)
}

// Gone says whether nothing keeps an object any more.
func Gone(obj Object) bool {
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && Grace(obj) == 0
}

func conflict(r *Resource, name, format string, args ...any) error {
	return apierrors.NewConflict(r.GroupResource(), name, fmt.Errorf(format, args...))
}
