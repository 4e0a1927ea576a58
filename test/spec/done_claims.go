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

// claimsDone: a pod that serves, or will, has its claims, and each claim is as claimDone says.
func (u *update) claimsDone() string {
	for _, c := range u.Claims {
		for i := range u.p.Spec.VolumeClaimTemplates {
			t := &u.p.Spec.VolumeClaimTemplates[i]
			pod, _ := strings.CutPrefix(c.Name, t.Name+"-")
			if ordinal, ok := ordinals.Parse(u.p.Name, pod); ok && c.Name == t.Name+"-"+pod && !u.notOurs(c) {
				if why := u.claimDone(c, t, ordinal); why != "" {
					return fmt.Sprintf("claim %s %s", c.Name, why)
				}
			}
		}
	}
	for _, pod := range u.pods {
		place, _ := u.place(pod.Name)
		for _, t := range u.p.Spec.VolumeClaimTemplates {
			if stays := place >= 0 && pod.DeletionTimestamp == nil && !over(pod); stays && named(u.Claims, t.Name+"-"+pod.Name) == nil {
				return fmt.Sprintf("claim %s-%s of a pod is missing", t.Name, pod.Name)
			}
		}
	}
	return ""
}

// claimDone: the claim of a replica is labelled as its claim, is not marked as a surge replica's, has
// an owner reference exactly if it is to go with the Pod2, and is as large as its template, if its
// class lets it grow. Any other of ours is there because its pod is, or is kept by the policy.
func (u *update) claimDone(c, template *corev1.PersistentVolumeClaim, ordinal int32) string {
	policy := ptr.Deref(u.p.Spec.PersistentVolumeClaimRetentionPolicy, v1.Pod2ClaimRetentionPolicy{})
	marked, goes := c.Annotations[v1.SurgeClaimAnnotation] == "true", policy.WhenDeleted == v1.DeleteClaim
	owned := slices.ContainsFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == u.p.UID })
	has, wants := c.Spec.Resources.Requests.Storage(), template.Spec.Resources.Requests.Storage()
	place, placed := Ordinals(u.p).Place(ordinal)
	replica := Ordinals(u.p).Has(ordinal)
	switch {
	case replica && (c.Labels[v1.Pod2Label] != u.p.Name || c.Labels[v1.PodIndexLabel] != strconv.Itoa(int(ordinal))):
		return "has not our labels"
	case replica && marked:
		return "is a replica's, and says that it is a surge replica's"
	case replica && owned != goes:
		return "has an owner reference of ours, or has none, against the policy"
	case replica && has.Cmp(*wants) < 0 && c.Status.Phase == corev1.ClaimBound && u.mayGrow(c):
		return "is smaller than its template"
	case replica || placed && place < Ordinals(u.p).Count()+MaxSurge(u.p) || c.Labels[v1.Pod2Label] != u.p.Name:
		return ""
	case marked || policy.WhenScaled == v1.DeleteClaim:
		if named(u.Pods, ordinals.Name(u.p.Name, ordinal)) == nil {
			return "is not needed, and not to be kept"
		}
	case owned && !goes:
		return "would go with the Pod2, against the policy"
	}
	return ""
}

func (u *update) mayGrow(c *corev1.PersistentVolumeClaim) bool {
	class := named(u.Classes, ptr.Deref(c.Spec.StorageClassName, ""))
	return class != nil && ptr.Deref(class.AllowVolumeExpansion, false)
}

// notOurs says whether a claim is of another owner, or on its way out: neither is used, or touched.
func (u *update) notOurs(c *corev1.PersistentVolumeClaim) bool {
	other := c.Labels[v1.Pod2Label]
	controller := metav1.GetControllerOfNoCopy(c)
	earlier := slices.ContainsFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Kind == "Pod2" && ref.Name == u.p.Name && ref.UID != u.p.UID
	})
	return c.DeletionTimestamp != nil || earlier || controller != nil && controller.UID != u.p.UID || other != "" && other != u.p.Name
}
