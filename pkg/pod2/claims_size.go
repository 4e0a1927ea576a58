package pod2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/internal/shorten"
	"github.com/pod2/pod2/pkg/plan"
)

// Reasons of the condition ClaimsResized; the first that applies is shown.
const (
	ReasonFailedResize        = "FailedResize"
	ReasonExpansionNotAllowed = "ExpansionNotAllowed"
	ReasonWaitingForVolume    = "WaitingForVolume"
	ReasonResizing            = "Resizing"
	ReasonClaimsResized       = "ClaimsResized"
)

// size returns the state of the size of a slot's PVC; the first match wins:
//
//	request below the template's, StorageClass forbids expansion   nothing is written: ExpansionNotAllowed
//	request below the template's, not bound                        the API server would refuse it: WaitingForVolume
//	request below the template's                                   the request is written
//	volume below the request                                       the storage driver is resizing it: Resizing
//	any other                                                      ""; also for a larger PVC, which does no harm
func (v *view) size(c claim) (reason, message string, grow *corev1.PersistentVolumeClaim) {
	wanted := c.template.Spec.Resources.Requests[corev1.ResourceStorage]
	requested := c.Spec.Resources.Requests[corev1.ResourceStorage]
	bound := c.Status.Phase == corev1.ClaimBound
	if requested.Cmp(wanted) < 0 {
		text := fmt.Sprintf("PersistentVolumeClaim %s requests %s and its template requests %s", c.Name, requested.String(), wanted.String())
		if why := v.fixedSize(c); why != "" {
			return ReasonExpansionNotAllowed, text + ", but " + why, nil
		}
		if !bound {
			return ReasonWaitingForVolume, text + ": the controller resizes it once it is bound", nil
		}
		grown := c.DeepCopy()
		if grown.Spec.Resources.Requests == nil {
			grown.Spec.Resources.Requests = corev1.ResourceList{}
		}
		grown.Spec.Resources.Requests[corev1.ResourceStorage] = wanted
		return ReasonResizing, text, grown
	}
	if capacity, known := c.Status.Capacity[corev1.ResourceStorage]; bound && known && capacity.Cmp(wanted) < 0 {
		return ReasonResizing, fmt.Sprintf("PersistentVolumeClaim %s has %s of %s so far%s", c.Name, capacity.String(), wanted.String(), obstacle(c)), nil
	}
	return "", "", nil
}

// fixedSize returns why the StorageClass of a PVC does not allow it to grow, "" if it
// does.
func (v *view) fixedSize(c claim) string {
	name := ptr.Deref(c.Spec.StorageClassName, "")
	if name == "" {
		return "it has no StorageClass, so it cannot be expanded"
	}
	for _, class := range v.classes {
		if class.Name == name {
			if ptr.Deref(class.AllowVolumeExpansion, false) {
				return ""
			}
			return fmt.Sprintf("StorageClass %s does not allow expansion (allowVolumeExpansion)", name)
		}
	}
	return fmt.Sprintf("its StorageClass %s does not exist", name)
}

// obstacle returns the problem that the PVC reports about a resize in progress.
func obstacle(c claim) string {
	for _, condition := range c.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && condition.Message != "" {
			return fmt.Sprintf(" (%s: %s)", condition.Type, shorten.To(condition.Message, maxCause))
		}
	}
	return ""
}

// sized returns the PVCs of slots whose size must match the template.
func (v *view) sized() []claim {
	var claims []claim
	for _, c := range v.claims {
		if _, used := v.slot(c); used && v.untouchable(c) == "" {
			claims = append(claims, c)
		}
	}
	return claims
}

// grownClaims returns the PVCs to resize. They are written last. So a refusal (by a
// quota) blocks nothing else. A PVC whose metadata changes gets another resourceVersion
// first, and is resized by the next plan.
func (v *view) grownClaims() []ClaimChange {
	var changes []ClaimChange
	for _, c := range v.sized() {
		_, _, grown := v.size(c)
		if grown == nil || metadataDiffers(c.PersistentVolumeClaim, v.marked(c)) != "" {
			continue
		}
		was, is := c.Spec.Resources.Requests[corev1.ResourceStorage], grown.Spec.Resources.Requests[corev1.ResourceStorage]
		changes = append(changes, ClaimChange{Claim: grown, Reason: fmt.Sprintf("%s instead of %s", is.String(), was.String())})
	}
	return changes
}

// resized returns the condition ClaimsResized.
func (v *view) resized() metav1.Condition {
	if v.resizeFailed != "" {
		return plan.False(ReasonFailedResize, v.resizeFailed)
	}
	messages := map[string][]string{}
	for _, c := range v.sized() {
		if reason, message, _ := v.size(c); reason != "" && len(messages[reason]) <= namesShown {
			messages[reason] = append(messages[reason], message)
		}
	}
	for _, reason := range []string{ReasonExpansionNotAllowed, ReasonWaitingForVolume, ReasonResizing} {
		if all := messages[reason]; len(all) > 0 {
			return plan.False(reason, list(all))
		}
	}
	return plan.True(ReasonClaimsResized, "no PersistentVolumeClaim is smaller than its template")
}

// mount adds the PVCs of a place to its pod. Each becomes the volume with the template's
// name, and replaces a volume with that name in the pod's template.
func (v *view) mount(pod *corev1.Pod, ordinal int32) {
	for _, template := range v.pod2.Spec.VolumeClaimTemplates {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(template.Name, v.pod2.Name, ordinal)}}
		replaced := false
		for i := range pod.Spec.Volumes {
			if pod.Spec.Volumes[i].Name == template.Name {
				pod.Spec.Volumes[i].VolumeSource, replaced = source, true
			}
		}
		if !replaced {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: template.Name, VolumeSource: source})
		}
	}
}
