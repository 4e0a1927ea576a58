package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/test/apiserver"
)

// serves says whether a pod serves, and is not about to stop: it is neither being
// deleted, nor has it a container that is to run another image.
func serves(pod *corev1.Pod) bool {
	runs := func(c corev1.Container) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(is corev1.ContainerStatus) bool { return is.Name == c.Name && is.Image == c.Image })
	}
	return pod.DeletionTimestamp == nil && ready(pod) && !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return !runs(c) })
}

// available says whether a pod serves, and has for so long.
func available(pod *corev1.Pod, least time.Duration) bool {
	if !serves(pod) {
		return false
	}
	var since time.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			since = c.LastTransitionTime.Time
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil && c.State.Running.StartedAt.After(since) {
			since = c.State.Running.StartedAt.Time
		}
	}
	return time.Since(since) >= least
}

// tooFew is S5: while no more of the others are available than have to, no run deletes an
// available pod of a Pod2, or gives it another image. A pod that serves but is too young to
// be available is taken by an update only while one more than that is available. It is a
// promise of one writer.
func tooFew(s *Cluster, by string, old, pod *corev1.Pod) string {
	ref := metav1.GetControllerOf(old)
	if ref == nil || ref.Kind != "Pod2" || !serves(old) || serves(pod) {
		return ""
	}
	for name, p := range s.processes {
		if name != by && !p.dead {
			return ""
		}
	}
	specs := apiserver.Versions[*v1.Pod2](s.Server, "pod2s", ref.UID, window(s, "pod2s"))
	minReady := time.Duration(math.MaxInt64)
	for _, p := range specs {
		minReady = min(minReady, time.Duration(p.Spec.MinReadySeconds)*time.Second)
	}
	young := !available(old, minReady)
	least := 0
	for i, p := range specs {
		replicas := int(ptr.Deref(p.Spec.Replicas, 1))
		have := replicas - unavailable(p, replicas)
		if young {
			have++
		}
		if p.Spec.UpdateStrategy.Type == v1.Recreate || young && scaledDown(p, old.Name) {
			have = 0
		}
		if i == 0 || have < least {
			least = have
		}
	}
	n := othersServing(s, ref.UID, old.UID, minReady)
	switch {
	case n >= least:
		return ""
	case young:
		return fmt.Sprintf("S5: %s, which is Ready, is updated: %d others of %s are available, and %d have to be", old.Name, n, ref.Name, least)
	}
	return fmt.Sprintf("S5: %s is taken away: %d others of %s serve, of which %d have to", old.Name, n, ref.Name, least)
}

// scaledDown says whether a spec has no replica of this name.
func scaledDown(p *v1.Pod2, name string) bool {
	start := int32(0)
	if p.Spec.Ordinals != nil {
		start = p.Spec.Ordinals.Start
	}
	ordinal, ok := ordinals.Parse(p.Name, name)
	return !ok || !ordinals.New(start, ptr.Deref(p.Spec.Replicas, 1), p.Spec.ReserveOrdinals).Has(ordinal)
}

// othersServing counts the available pods of a Pod2, but for one. A pod that somebody
// else than a run took away counts for as long as a run may not know of that: no
// precondition on another pod could have told it.
func othersServing(s *Cluster, pod2, but types.UID, minReady time.Duration) (n int) {
	since, decided := window(s, "pods"), map[types.UID]bool{but: true}
	for _, c := range slices.Backward(s.History()) {
		pod, ok := c.New.Object.(*corev1.Pod)
		if !ok || decided[pod.UID] {
			continue
		}
		ref := metav1.GetControllerOf(pod)
		switch {
		case !c.Removed && available(pod, minReady) && ref != nil && ref.UID == pod2:
			n++
			decided[pod.UID] = true
		case c.New.Number <= since, isRun(s, c.By) && c.Old != nil && serves(c.Old.Object.(*corev1.Pod)):
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
