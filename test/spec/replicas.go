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

// Ordinals of the replicas of a Pod2.
func Ordinals(p *v1.Pod2) ordinals.Range {
	return ordinals.New(startOf(p), ptr.Deref(p.Spec.Replicas, 1), p.Spec.ReserveOrdinals)
}

func startOf(p *v1.Pod2) int32 { return ptr.Deref(p.Spec.Ordinals, v1.Pod2Ordinals{}).Start }

// MaxSurge is how many pods there may be besides the replicas.
func MaxSurge(p *v1.Pod2) int {
	if u := p.Spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxSurge != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxSurge, Ordinals(p).Count(), true) // the schema admits no other text
		return max(n, 0)
	}
	return 0
}

// LeastAvailable is how many replicas have to be available while others are taken: all but
// maxUnavailable, which is one at least where there is no surge; none of a Recreate.
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

// Most is how many pods of a Pod2 there may be when one is created, by the most generous of the
// specs that the controller may know.
func Most(specs []*v1.Pod2) int {
	most := 0
	for _, p := range specs {
		most = max(most, Ordinals(p).Count()+MaxSurge(p))
	}
	return most
}

// TooMany is S4, asked when a pod was created: pods are all that there are since, those that are
// being deleted and the new one included, and most is how many of its Pod2 there may be.
func TooMany(created *corev1.Pod, pods []*corev1.Pod, most int) string {
	ref := metav1.GetControllerOfNoCopy(created)
	if ref == nil || ref.Kind != "Pod2" {
		return fmt.Sprintf("S4: %s is created for nobody", created.Name)
	}
	n := 0
	for _, pod := range pods {
		if controlledBy(pod, ref.UID) {
			n++
		}
	}
	if n > most {
		return fmt.Sprintf("S4: %s is created: %d pods of %s, of which there may be %d", created.Name, n, ref.Name, most)
	}
	return ""
}

// Serves says whether a pod is Ready, stays, and runs the images that it is to run.
func Serves(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.Containers {
		if slices.ContainsFunc(pod.Status.ContainerStatuses, func(is corev1.ContainerStatus) bool { return is.Name == c.Name && is.Image != c.Image }) {
			return false
		}
	}
	_, ready := ReadySince(pod)
	return ready && pod.DeletionTimestamp == nil && !over(pod)
}

// ReadySince is false for a pod that is not Ready. A quick restart of a container need not show in
// the condition.
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

// Available says whether a pod serves, and has been Ready for so long.
func Available(pod *corev1.Pod, least time.Duration, now time.Time) bool {
	since, _ := ReadySince(pod)
	return Serves(pod) && (least <= 0 || now.Sub(since) >= least)
}

// TooFew is S5, asked when a pod that serves is taken: deleted, or made to run another image. It is
// kept if of the other pods of its Pod2 as many are available as have to be, by the most generous
// of the specs that the controller may know. To take one that is Ready, and too young to be
// available, one more has to be, unless it is scaled away.
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
		return fmt.Sprintf("S5: %s, which is Ready, is updated: %d others of %s are available, and %d have to be", taken.Name, n, ref.Name, least)
	}
	return fmt.Sprintf("S5: %s is taken away: %d others of %s are available, and %d have to be", taken.Name, n, ref.Name, least)
}

// MinReady is how long a pod has to be Ready, by the most generous of the specs.
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
