package sim

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/test/apiserver"
)

// collectGarbage is one pass of the garbage collector over dependents:
//
//	all owners are gone                                is deleted
//	some owners are gone                               loses these owner references
//	an owner waits for its dependents (foreground)     is deleted
//	an owner leaves its dependents (orphan)            loses the owner reference, then the owner is removed
func (s *Cluster) collectGarbage() {
	owners := map[types.UID]apiserver.Object{}
	var all []apiserver.Object
	for _, r := range apiserver.Resources {
		if apiserver.Apart[r.Resource] {
			continue
		}
		for _, v := range s.All(r, "") {
			owners[v.Object.GetUID()] = v.Object
			all = append(all, v.Object)
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
				r := apiserver.ResourceOf(obj)
				policy := metav1.DeletePropagationBackground
				if foreground {
					policy = metav1.DeletePropagationForeground
				}
				// The precondition is the UID of the object that was just read.
				_, _ = s.Delete("garbage collector", r, obj, metav1.DeleteOptions{PropagationPolicy: &policy})
			}
		case len(left) < len(refs):
			apiserver.Edit(s.Server, "garbage collector", obj, func(o apiserver.Object) { o.SetOwnerReferences(left) })
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
		current := s.Get(apiserver.ResourceOf(owner), owner.GetNamespace(), owner.GetName())
		if done == "" || current == nil {
			continue
		}
		apiserver.Edit(s.Server, "garbage collector", current, func(o apiserver.Object) {
			o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == done }))
		})
	}
}
