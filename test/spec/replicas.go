package spec

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// Ordinals returns the ordinals of the replicas of a Pod2.
func Ordinals(p *v1.Pod2) ordinals.Range {
	return ordinals.New(startOf(p), ptr.Deref(p.Spec.Replicas, 1), p.Spec.ReserveOrdinals)
}

func startOf(p *v1.Pod2) int32 { return ptr.Deref(p.Spec.Ordinals, v1.Pod2Ordinals{}).Start }

// MaxSurge is the number of pods that may exist in addition to the replicas.
func MaxSurge(p *v1.Pod2) int {
	if u := p.Spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxSurge != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxSurge, Ordinals(p).Count(), true) // the schema rejects any other text
		return max(n, 0)
	}
	return 0
}

// LeastAvailable is the number of replicas that must stay available while others are taken:
// all except maxUnavailable. maxUnavailable is at least 1 if there is no surge. With the
// strategy Recreate, none has to stay available.
func LeastAvailable(p *v1.Pod2) int {
	if p.Spec.UpdateStrategy.Type == v1.Recreate {
		return 0
	}
	unavailable := 1
	if u := p.Spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxUnavailable != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, Ordinals(p).Count(), false); err == nil {
			unavailable = max(n, 0)
		}
	}
	if MaxSurge(p) == 0 {
		unavailable = max(unavailable, 1)
	}
	return Ordinals(p).Count() - unavailable
}

// Most is the number of pods of a Pod2 that may exist after a creation. The controller may
// know any of the specs, so the most generous one counts.
func Most(specs []*v1.Pod2) int {
	most := 0
	for _, p := range specs {
		most = max(most, Ordinals(p).Count()+MaxSurge(p))
	}
	return most
}

// TooMany is S4, checked when a pod is created. pods are all pods that exist now, including
// terminating ones and the new one. most is how many pods its Pod2 may have.
func TooMany(created *corev1.Pod, pods []*corev1.Pod, most int) string {
	ref := metav1.GetControllerOfNoCopy(created)
	if ref == nil || ref.Kind != "Pod2" {
		return fmt.Sprintf("S4: %s is created without a Pod2", created.Name)
	}
	n := 0
	for _, pod := range pods {
		if controlledBy(pod, ref.UID) {
			n++
		}
	}
	if n > most {
		return fmt.Sprintf("S4: %s is created: %d pods of %s exist, and at most %d may", created.Name, n, ref.Name, most)
	}
	return ""
}

// Serves says whether a pod is Ready, is not being deleted, and runs the images of its
// spec.
func Serves(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.Containers {
		if slices.ContainsFunc(pod.Status.ContainerStatuses, func(is corev1.ContainerStatus) bool { return is.Name == c.Name && is.Image != c.Image }) {
			return false
		}
	}
	_, ready := ReadySince(pod)
	return ready && pod.DeletionTimestamp == nil && !over(pod)
}

// ReadySince returns false for a pod that is not Ready. A quick restart of a container may
// not show in the condition, so the start of the containers counts too.
func ReadySince(pod *corev1.Pod) (since time.Time, ready bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			since, ready = c.LastTransitionTime.Time, true
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil && s.State.Running.StartedAt.After(since) {
			since = s.State.Running.StartedAt.Time
		}
	}
	return since, ready
}

// Available says whether a pod serves and has been Ready for this long.
func Available(pod *corev1.Pod, least time.Duration, now time.Time) bool {
	since, _ := ReadySince(pod)
	return Serves(pod) && (least <= 0 || now.Sub(since) >= least)
}

// TooFew is S5, checked when a serving pod is taken: deleted, or changed to run another
// image. Enough of the other pods of its Pod2 must be available, by the most generous of
// the specs that the controller may know. If the taken pod is Ready but not yet available,
// one more must be available, unless the pod is scaled down.
func TooFew(taken *corev1.Pod, others []*corev1.Pod, specs []*v1.Pod2, now time.Time) string {
	ref := metav1.GetControllerOfNoCopy(taken)
	if ref == nil || ref.Kind != "Pod2" || !Serves(taken) || len(specs) == 0 {
		return ""
	}
	minReady, least := MinReady(specs), 0
	young := !Available(taken, minReady, now)
	for i, p := range specs {
		have := LeastAvailable(p)
		if young && p.Spec.UpdateStrategy.Type != v1.Recreate {
			have++
		}
		if ordinal, ok := ordinals.Parse(p.Name, taken.Name); young && (!ok || !Ordinals(p).Has(ordinal)) {
			have = 0
		}
		if i == 0 || have < least {
			least = have
		}
	}
	n := 0
	for _, pod := range others {
		if pod.UID != taken.UID && controlledBy(pod, ref.UID) && Available(pod, minReady, now) {
			n++
		}
	}
	switch {
	case n >= least:
		return ""
	case young:
		return fmt.Sprintf("S5: %s, which is Ready, is updated: %d other pods of %s are available, and %d must be", taken.Name, n, ref.Name, least)
	}
	return fmt.Sprintf("S5: %s is taken away: %d other pods of %s are available, and %d must be", taken.Name, n, ref.Name, least)
}

// MinReady is how long a pod must be Ready, by the most generous of the specs.
func MinReady(specs []*v1.Pod2) time.Duration {
	least := specs[0].Spec.MinReadySeconds
	for _, p := range specs {
		least = min(least, p.Spec.MinReadySeconds)
	}
	return time.Duration(least) * time.Second
}

func controlledBy(o metav1.Object, uid types.UID) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.UID == uid
}
