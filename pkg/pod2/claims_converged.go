package pod2

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// claimsDiffer is the part of Converged that is about claims:
//
//   - a pod of ours that serves, or will, has its claims;
//   - a claim that we may touch and whose ordinal is a replica's or a surge replica's
//     says whose it is and of which ordinal, says that it is a surge replica's only if
//     it is, has an owner reference of ours exactly if it is to go with the Pod2, and
//     is as large as its template, if it is bound and of a class that lets it grow;
//   - any other that says that it is ours is there because a pod of its ordinal is, or
//     because it is to be kept; then it has no owner reference of ours that would
//     delete it against the policy.
func claimsDiffer(v *view, s State) string {
	slots := map[int32]replica{}
	for place, r := range v.slots {
		slots[v.ordinals.At(place)] = r
	}
	present := map[string]bool{}
	for _, object := range s.Claims {
		present[object.Name] = true
		template, ordinal, ours := parseClaim(s.Pod2, object.Name)
		if !ours || v.untouchable(claim{object, template, ordinal}) != "" {
			continue
		}
		_, used := slots[ordinal]
		why := ""
		if used {
			why = slotClaimDiffers(s, object, template, ordinal)
		} else if object.Labels[v1.Pod2Label] == s.Pod2.Name {
			why = leftClaimDiffers(s, object, ordinal)
		}
		if why != "" {
			return fmt.Sprintf("claim %s %s", object.Name, why)
		}
	}
	for ordinal, r := range slots {
		for _, t := range s.Pod2.Spec.VolumeClaimTemplates {
			if name := t.Name + "-" + ordinals.Name(s.Pod2.Name, ordinal); r.live() && !present[name] {
				return fmt.Sprintf("claim %s of a pod is missing", name)
			}
		}
	}
	return ""
}

func whenDeleted(p *v1.Pod2) bool {
	r := p.Spec.PersistentVolumeClaimRetentionPolicy
	return r != nil && r.WhenDeleted == v1.DeleteClaim
}

func hasOwner(c *corev1.PersistentVolumeClaim, p *v1.Pod2) bool {
	return slices.ContainsFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == p.UID })
}

func slotClaimDiffers(s State, c, template *corev1.PersistentVolumeClaim, ordinal int32) string {
	surge := c.Annotations[v1.SurgeClaimAnnotation] == "true"
	switch {
	case c.Labels[v1.Pod2Label] != s.Pod2.Name || c.Labels[v1.PodIndexLabel] != strconv.Itoa(int(ordinal)):
		return "has not our labels"
	case surge && Ordinals(s.Pod2).Has(ordinal):
		return "is a replica's and says that it is a surge replica's"
	case hasOwner(c, s.Pod2) != (surge || whenDeleted(s.Pod2)):
		return "has an owner reference of ours, or has none, against the policy"
	}
	has, wants := c.Spec.Resources.Requests.Storage(), template.Spec.Resources.Requests.Storage()
	for _, class := range s.StorageClasses {
		if class.Name == ptr.Deref(c.Spec.StorageClassName, "") && ptr.Deref(class.AllowVolumeExpansion, false) &&
			c.Status.Phase == corev1.ClaimBound && has.Cmp(*wants) < 0 {
			return "is smaller than its template"
		}
	}
	return ""
}

func leftClaimDiffers(s State, c *corev1.PersistentVolumeClaim, ordinal int32) string {
	surge := c.Annotations[v1.SurgeClaimAnnotation] == "true"
	if r := s.Pod2.Spec.PersistentVolumeClaimRetentionPolicy; surge || r != nil && r.WhenScaled == v1.DeleteClaim {
		hasPod := func(pod *corev1.Pod) bool { return pod.Name == ordinals.Name(s.Pod2.Name, ordinal) }
		if slices.ContainsFunc(s.Pods, hasPod) {
			return ""
		}
		return "is not needed and not to be kept"
	}
	if hasOwner(c, s.Pod2) && !whenDeleted(s.Pod2) {
		return "would go with the Pod2, against the policy"
	}
	return ""
}
