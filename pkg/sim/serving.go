package sim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// serves says whether a pod serves, and is not about to stop: it is neither being
// deleted, nor has it a container that is to run another image.
func serves(pod *corev1.Pod) bool {
	runs := func(c corev1.Container) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(is corev1.ContainerStatus) bool { return is.Name == c.Name && is.Image == c.Image })
	}
	return pod.DeletionTimestamp == nil && ready(pod) && !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return !runs(c) })
}

// tooFew is S5: while no more of the others serve than have to, no run deletes a pod of
// a Pod2 that serves, or gives it another image. It is a promise of one writer.
func tooFew(s *Server, by string, old, pod *corev1.Pod) string {
	ref := metav1.GetControllerOf(old)
	if ref == nil || ref.Kind != "Pod2" || !serves(old) || serves(pod) {
		return ""
	}
	for name, p := range s.processes {
		if name != by && !p.dead {
			return ""
		}
	}
	least := 0
	for i, p := range Versions[*v1.Pod2](s, "pod2s", ref.UID, window(s, "pod2s")) {
		replicas := int(ptr.Deref(p.Spec.Replicas, 1))
		serving := replicas - unavailable(p, replicas)
		if p.Spec.UpdateStrategy.Type == v1.Recreate {
			serving = 0
		}
		if i == 0 || serving < least {
			least = serving
		}
	}
	if n := othersServing(s, ref.UID, old.UID); n < least {
		return fmt.Sprintf("S5: %s is taken away: %d others of %s serve, of which %d have to", old.Name, n, ref.Name, least)
	}
	return ""
}

// othersServing counts the pods of a Pod2 that serve, but for one. A pod that somebody
// else than a run took away counts for as long as a run may not know of that: no
// precondition on another pod could have told it.
func othersServing(s *Server, pod2, but types.UID) (n int) {
	since, decided := window(s, "pods"), map[types.UID]bool{but: true}
	for _, c := range slices.Backward(s.history) {
		pod, ok := c.new.object.(*corev1.Pod)
		if !ok || decided[pod.UID] {
			continue
		}
		ref := metav1.GetControllerOf(pod)
		switch {
		case !c.removed && serves(pod) && ref != nil && ref.UID == pod2:
			n++
			decided[pod.UID] = true
		case c.new.number <= since, isRun(s, c.by) && c.old != nil && serves(c.old.object.(*corev1.Pod)):
			decided[pod.UID] = true
		}
	}
	return n
}

// unavailable is how many replicas may be missing: one at least where there is no surge.
func unavailable(p *v1.Pod2, replicas int) int {
	n := 1
	if u := p.Spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxUnavailable != nil {
		n, _ = intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, replicas, false) // the CRD admits no other text
	}
	if surge(p, replicas) == 0 {
		return max(n, 1)
	}
	return n
}

func surge(p *v1.Pod2, replicas int) int {
	if u := p.Spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxSurge != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxSurge, replicas, true) // the CRD admits no other text
		return n
	}
	return 0
}
