package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// claimsDone checks that a pod that serves, or will serve, has its PVCs, and that each PVC
// passes claimDone.
func (u *update) claimsDone() string {
	for _, c := range u.Claims {
		for i := range u.p.Spec.VolumeClaimTemplates {
			t := &u.p.Spec.VolumeClaimTemplates[i]
			pod, _ := strings.CutPrefix(c.Name, t.Name+"-")
			if ordinal, ok := ordinals.Parse(u.p.Name, pod); ok && c.Name == t.Name+"-"+pod && !u.notOurs(c) {
				if why := u.claimDone(c, t, ordinal); why != "" {
					return fmt.Sprintf("PVC %s %s", c.Name, why)
				}
			}
		}
	}
	for _, pod := range u.pods {
		place, _ := u.place(pod.Name)
		for _, t := range u.p.Spec.VolumeClaimTemplates {
			if stays := place >= 0 && pod.DeletionTimestamp == nil && !over(pod); stays && named(u.Claims, t.Name+"-"+pod.Name) == nil {
				return fmt.Sprintf("PVC %s-%s of a pod is missing", t.Name, pod.Name)
			}
		}
	}
	return ""
}

// claimDone checks a PVC. The PVC of a replica has the replica's labels and no mark of a
// surge replica. It has an owner reference exactly if it is to be deleted with the Pod2. It
// is as large as its template, if its StorageClass allows expansion. Any other PVC of the
// Pod2 exists because its pod exists or because the policy retains it.
func (u *update) claimDone(c, template *corev1.PersistentVolumeClaim, ordinal int32) string {
	policy := ptr.Deref(u.p.Spec.PersistentVolumeClaimRetentionPolicy, v1.Pod2ClaimRetentionPolicy{})
	marked, goes := c.Annotations[v1.SurgeClaimAnnotation] == "true", policy.WhenDeleted == v1.DeleteClaim
	owned := slices.ContainsFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == u.p.UID })
	has, wants := c.Spec.Resources.Requests.Storage(), template.Spec.Resources.Requests.Storage()
	place, placed := Ordinals(u.p).Place(ordinal)
	replica := Ordinals(u.p).Has(ordinal)
	switch {
	case replica && (c.Labels[v1.Pod2Label] != u.p.Name || c.Labels[v1.PodIndexLabel] != strconv.Itoa(int(ordinal))):
		return "lacks the labels of its replica"
	case replica && marked:
		return "belongs to a replica, and is marked as a surge replica's"
	case replica && owned != goes:
		return "has, or lacks, an owner reference of the Pod2 against the policy"
	case replica && has.Cmp(*wants) < 0 && c.Status.Phase == corev1.ClaimBound && u.mayGrow(c):
		return "is smaller than its template"
	case replica || placed && place < Ordinals(u.p).Count()+MaxSurge(u.p) || c.Labels[v1.Pod2Label] != u.p.Name:
		return ""
	case marked || policy.WhenScaled == v1.DeleteClaim:
		if named(u.Pods, ordinals.Name(u.p.Name, ordinal)) == nil {
			return "is not needed, and is not to be retained"
		}
	case owned && !goes:
		return "would be deleted with the Pod2, against the policy"
	}
	return ""
}

func (u *update) mayGrow(c *corev1.PersistentVolumeClaim) bool {
	class := named(u.Classes, ptr.Deref(c.Spec.StorageClassName, ""))
	return class != nil && ptr.Deref(class.AllowVolumeExpansion, false)
}

// notOurs says whether a PVC has another owner, or is being deleted. Such a PVC is neither
// used nor changed.
func (u *update) notOurs(c *corev1.PersistentVolumeClaim) bool {
	other := c.Labels[v1.Pod2Label]
	controller := metav1.GetControllerOfNoCopy(c)
	earlier := slices.ContainsFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Kind == "Pod2" && ref.Name == u.p.Name && ref.UID != u.p.UID
	})
	return c.DeletionTimestamp != nil || earlier || controller != nil && controller.UID != u.p.UID || other != "" && other != u.p.Name
}
