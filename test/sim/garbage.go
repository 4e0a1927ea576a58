package sim

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// collectGarbage is one pass of the garbage collector:
//
//	no owner is left                                   deleted
//	some owners are gone                               named no more
//	an owner waits for its dependents (foreground)     deleted
//	an owner leaves its dependents (orphan)            named no more; then the owner goes
func (s *Server) collectGarbage() {
	owners := map[types.UID]Object{}
	var all []Object
	for _, r := range resources {
		if apart[r.Resource] {
			continue
		}
		for _, v := range s.list(r, "") {
			owners[v.object.GetUID()] = v.object
			all = append(all, v.object)
		}
	}
	waitedFor := map[types.UID]bool{}
	for _, obj := range all {
		refs := obj.GetOwnerReferences()
		if len(refs) == 0 {
			continue
		}
		foreground := false
		left := slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool {
			owner := owners[ref.UID]
			if owner == nil {
				return true
			}
			if slices.Contains(owner.GetFinalizers(), metav1.FinalizerOrphanDependents) {
				return true
			}
			if owner.GetDeletionTimestamp() != nil && slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents) {
				foreground = true
				waitedFor[ref.UID] = true
			}
			return false
		})
		orphaned := slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool {
			owner := owners[ref.UID]
			return owner != nil && slices.Contains(owner.GetFinalizers(), metav1.FinalizerOrphanDependents)
		})
		switch {
		case len(left) == 0 && !orphaned, foreground && len(left) == 1:
			if obj.GetDeletionTimestamp() == nil {
				r := resourceNamed(resourceOf(obj))
				policy := metav1.DeletePropagationBackground
				if foreground {
					policy = metav1.DeletePropagationForeground
				}
				// Its precondition is the UID of what was just read.
				_, _ = s.delete("garbage collector", r, obj, metav1.DeleteOptions{PropagationPolicy: &policy})
			}
		case len(left) < len(refs):
			edit(s, "garbage collector", obj, func(o Object) { o.SetOwnerReferences(left) })
		}
	}
	for _, owner := range all {
		done := ""
		switch finalizers := owner.GetFinalizers(); {
		case owner.GetDeletionTimestamp() == nil:
		case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
			done = metav1.FinalizerOrphanDependents
		case slices.Contains(finalizers, metav1.FinalizerDeleteDependents) && !waitedFor[owner.GetUID()]:
			done = metav1.FinalizerDeleteDependents
		}
		current := s.get(resourceNamed(resourceOf(owner)), owner.GetNamespace(), owner.GetName())
		if done == "" || current == nil {
			continue
		}
		edit(s, "garbage collector", current, func(o Object) {
			o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == done }))
		})
	}
}
