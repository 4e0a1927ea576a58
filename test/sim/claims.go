package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/test/apiserver"
)

// stepClaims is one step of the cluster's storage:
//
//	deleted, no pod on a node uses it   is removed
//	any other                           is bound, to a volume of the requested size
func (s *Cluster) stepClaims() {
	used := map[string]bool{}
	for _, pod := range apiserver.List[*corev1.Pod](s.Server, "pods") {
		for _, name := range claimsOf(pod) {
			name = apiserver.Placed(pod.Namespace, name)
			used[name] = used[name] || pod.Spec.NodeName != ""
		}
	}
	for _, claim := range apiserver.List[*corev1.PersistentVolumeClaim](s.Server, "persistentvolumeclaims") {
		apiserver.Edit(s.Server, "storage", claim, func(c *corev1.PersistentVolumeClaim) {
			if c.DeletionTimestamp != nil && !used[apiserver.NameOf(c)] {
				c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == apiserver.ClaimProtection })
				return
			}
			c.Spec.VolumeName = "volume-of-" + c.Name
			c.Status.Phase = corev1.ClaimBound
			c.Status.Capacity = c.Spec.Resources.Requests.DeepCopy()
		})
	}
}

// hasClaims says whether the PVCs of a pod allow it to be scheduled.
func (s *Cluster) hasClaims(pod *corev1.Pod) bool {
	for _, name := range claimsOf(pod) {
		claim, _ := s.Get(apiserver.ResourceNamed("persistentvolumeclaims"), pod.Namespace, name).(*corev1.PersistentVolumeClaim)
		if claim == nil || claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound {
			return false
		}
	}
	return true
}

// claimsOf returns the names of the PVCs that a pod uses.
func claimsOf(pod *corev1.Pod) (names []string) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}
