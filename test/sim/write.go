package sim

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func (s *Server) create(by string, r *resource, namespace string, obj Object) (Object, error) {
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
	setDefaults(obj)
	s.mutate(r, obj)
	if err := s.refuse(by, "POST "+r.Resource, r, nil, obj); err != nil {
		return nil, err
	}
	if s.get(r, namespace, obj.GetName()) != nil {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), obj.GetName())
	}
	obj.SetUID(s.newUID())
	obj.SetCreationTimestamp(now())
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetGeneration(0)
	if r.generation {
		obj.SetGeneration(1)
	}
	if r.status {
		part(obj, "Status").SetZero()
	}
	setDefaults(obj)
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
		obj.Finalizers = append(obj.Finalizers, claimProtection)
	}
	return s.put(by, r, obj), nil
}

// update has the body of a PUT, or what a patch made of the object.
func (s *Server) update(by string, r *resource, sub string, old, body Object, put bool) (Object, error) {
	name := old.GetName()
	if uid := body.GetUID(); put && uid != "" && uid != old.GetUID() {
		return nil, conflict(r, name, "Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, old.GetUID())
	}
	switch version := body.GetResourceVersion(); {
	case version == "" && r.custom:
		return nil, apierrors.NewInvalid(r.gvk().GroupKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	case version != "" && version != old.GetResourceVersion():
		return nil, conflict(r, name, "the object has been modified; please apply your changes to the latest version and try again")
	}
	if uid := body.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, apierrors.NewInvalid(r.gvk().GroupKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), string(uid), "field is immutable"),
		})
	}
	next := body.DeepCopyObject().(Object)
	setDefaults(next)
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
	next.GetObjectKind().SetGroupVersionKind(r.gvk())
	if err := validate(r, sub, old, next); err != nil {
		return nil, err
	}
	verb := http.MethodPatch
	if put {
		verb = http.MethodPut
	}
	if err := s.refuse(by, kindOf(verb, r, sub), r, old, next); err != nil {
		return nil, err
	}
	return s.store(by, r, old, next), nil
}

// apart takes from a body what its subresource writes, and the rest from what is
// stored.
func (s *Server) apart(r *resource, sub string, old, next Object) error {
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

// validate has the rules on which safety rests.
func validate(r *resource, sub string, old, next Object) error {
	var errs field.ErrorList
	if old.GetDeletionTimestamp() != nil {
		for _, f := range next.GetFinalizers() {
			if !slices.Contains(old.GetFinalizers(), f) {
				errs = append(errs, field.Forbidden(field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted"))
			}
		}
	}
	spec := field.NewPath("spec")
	switch next := next.(type) {
	case *v1.AddressBlock:
		was := old.(*v1.AddressBlock).Spec
		if next.Spec.Network != was.Network || next.Spec.CIDR != was.CIDR {
			errs = append(errs, field.Invalid(spec, "object", "network and cidr of a block are immutable"))
		}
		if next.Spec.NetworkUID != was.NetworkUID && (next.Spec.Sealed || slices.ContainsFunc(next.Spec.Entries, func(e v1.AddressEntry) bool { return e.State == v1.AddressBound })) {
			errs = append(errs, field.Invalid(spec.Child("networkUID"), "object", "networkUID may change only in an unsealed block without Bound entries"))
		}
		if was.Sealed && !next.Spec.Sealed {
			errs = append(errs, field.Invalid(spec.Child("sealed"), "object", "a sealed block stays sealed"))
		}
		if next.Spec.Sealed && len(next.Spec.Entries) > 0 {
			errs = append(errs, field.Invalid(spec.Child("sealed"), "object", "only an empty block is sealed, and a sealed one takes no entry"))
		}
	case *v1.VNI:
		if next.Spec != old.(*v1.VNI).Spec {
			errs = append(errs, field.Invalid(spec, "object", "a VNI is of one Network for as long as it exists"))
		}
	case *corev1.Pod:
		errs = append(errs, validatePod(sub, old.(*corev1.Pod), next)...)
	case *corev1.PersistentVolumeClaim:
		errs = append(errs, validateClaim(old.(*corev1.PersistentVolumeClaim), next)...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(r.gvk().GroupKind(), next.GetName(), errs)
	}
	return nil
}

// validatePod lets gates go, images change and, through resize, resources.
func validatePod(sub string, old, next *corev1.Pod) field.ErrorList {
	spec := field.NewPath("spec")
	for i, gate := range next.Spec.SchedulingGates {
		if !slices.Contains(old.Spec.SchedulingGates, gate) {
			return field.ErrorList{field.Forbidden(spec.Child("schedulingGates").Index(i).Child("name"), "only deletion is allowed")}
		}
	}
	as := next.DeepCopy().Spec
	as.SchedulingGates = old.Spec.SchedulingGates
	if len(as.Containers) == len(old.Spec.Containers) {
		for i := range as.Containers {
			as.Containers[i].Image = old.Spec.Containers[i].Image
			if sub == "resize" {
				as.Containers[i].Resources = old.Spec.Containers[i].Resources
			}
		}
	}
	if !equality.Semantic.DeepEqual(as, old.Spec) {
		return field.ErrorList{field.Forbidden(spec, "pod updates may not change fields other than `spec.containers[*].image`")}
	}
	return nil
}

// delete removes an object, or marks it when a finalizer or a kubelet keeps it.
func (s *Server) delete(by string, r *resource, old Object, o metav1.DeleteOptions) (Object, error) {
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
		next.SetDeletionTimestamp(ptr.To(metav1.NewTime(now().Add(time.Duration(seconds) * time.Second))))
		next.SetDeletionGracePeriodSeconds(&seconds)
		if next.GetGeneration() > 0 {
			next.SetGeneration(next.GetGeneration() + 1)
		}
	} else if seconds < grace(old) {
		next.SetDeletionGracePeriodSeconds(&seconds)
	}
	return s.store(by, r, old, next), nil
}

func conflict(r *resource, name, format string, args ...any) error {
	return apierrors.NewConflict(r.GroupResource(), name, fmt.Errorf(format, args...))
}
