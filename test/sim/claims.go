package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimProtection is the finalizer that admission puts on every claim.
const claimProtection = "kubernetes.io/pvc-protection"

// stepClaims is one step of the storage of the cluster:
//
//	deleted, no pod on a node has it   goes
//	any other                          is bound, to a volume of the size that it asks for
func (s *Server) stepClaims() {
	used := map[string]bool{}
	for _, pod := range List[*corev1.Pod](s, "pods") {
		for _, name := range claimsOf(pod) {
			name = placed(pod.Namespace, name)
			used[name] = used[name] || pod.Spec.NodeName != ""
		}
	}
	for _, claim := range List[*corev1.PersistentVolumeClaim](s, "persistentvolumeclaims") {
		edit(s, "storage", claim, func(c *corev1.PersistentVolumeClaim) {
			if c.DeletionTimestamp != nil && !used[nameOf(c)] {
				c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == claimProtection })
				return
			}
			c.Spec.VolumeName = "volume-of-" + c.Name
			c.Status.Phase = corev1.ClaimBound
			c.Status.Capacity = c.Spec.Resources.Requests.DeepCopy()
		})
	}
}

// hasClaims says whether a pod can be scheduled for all that its claims care.
func (s *Server) hasClaims(pod *corev1.Pod) bool {
	for _, name := range claimsOf(pod) {
		claim, _ := s.get(resourceNamed("persistentvolumeclaims"), pod.Namespace, name).(*corev1.PersistentVolumeClaim)
		if claim == nil || claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound {
			return false
		}
	}
	return true
}

// claimsOf are the names of the claims that a pod has.
func claimsOf(pod *corev1.Pod) (names []string) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// validateClaim lets one that is bound ask for more.
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
