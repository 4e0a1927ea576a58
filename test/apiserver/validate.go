package apiserver

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// validate checks the rules on which safety rests.
func validate(r *Resource, sub string, old, next Object) error {
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
			errs = append(errs, field.Invalid(spec, "object", "network and cidr are immutable"))
		}
		if next.Spec.NetworkUID != was.NetworkUID && (next.Spec.Sealed || slices.ContainsFunc(next.Spec.Entries, func(e v1.AddressEntry) bool { return e.State == v1.AddressBound })) {
			errs = append(errs, field.Invalid(spec.Child("networkUID"), "object", "networkUID may change only in an unsealed AddressBlock without Bound entries"))
		}
		if was.Sealed && !next.Spec.Sealed {
			errs = append(errs, field.Invalid(spec.Child("sealed"), "object", "sealed is immutable once it is true"))
		}
		if next.Spec.Sealed && len(next.Spec.Entries) > 0 {
			errs = append(errs, field.Invalid(spec.Child("sealed"), "object", "a sealed AddressBlock must not have entries"))
		}
	case *v1.VNI:
		if next.Spec != old.(*v1.VNI).Spec {
			errs = append(errs, field.Invalid(spec, "object", "spec is immutable: a VNI belongs to one Network for as long as it exists"))
		}
	case *corev1.Pod:
		errs = append(errs, validatePod(sub, old.(*corev1.Pod), next)...)
	case *corev1.PersistentVolumeClaim:
		errs = append(errs, validateClaim(old.(*corev1.PersistentVolumeClaim), next)...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(r.GVK().GroupKind(), next.GetName(), errs)
	}
	return nil
}

// validatePod allows gates to be removed, images to change and, through resize, resources
// to change.
func validatePod(sub string, old, next *corev1.Pod) field.ErrorList {
	spec := field.NewPath("spec")
	for i, gate := range next.Spec.SchedulingGates {
		if !slices.Contains(old.Spec.SchedulingGates, gate) {
			return field.ErrorList{field.Forbidden(spec.Child("schedulingGates").Index(i).Child("name"), "only deletion is allowed")}
		}
	}
	as := next.DeepCopy().Spec
	as.SchedulingGates = old.Spec.SchedulingGates
	if len(as.InitContainers) == len(old.Spec.InitContainers) {
		for i := range as.InitContainers {
			as.InitContainers[i].Image = old.Spec.InitContainers[i].Image
		}
	}
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

// validateClaim allows a bound PVC to request more storage.
func validateClaim(old, next *corev1.PersistentVolumeClaim) field.ErrorList {
	spec := field.NewPath("spec")
	as := next.DeepCopy().Spec
	has, asked := old.Spec.Resources.Requests.Storage(), next.Spec.Resources.Requests.Storage()
	if old.Status.Phase == corev1.ClaimBound && as.Resources.Requests != nil {
		as.Resources.Requests[corev1.ResourceStorage] = *has
	}
	if !equality.Semantic.DeepEqual(as, old.Spec) {
		return field.ErrorList{field.Forbidden(spec, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")}
	}
	if asked.Cmp(*has) < 0 {
		return field.ErrorList{field.Forbidden(spec.Child("resources", "requests", "storage"), "field can not be less than status.capacity")}
	}
	return nil
}
