package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/spec"
)

// tooFew checks S5 when a run deletes a pod, or gives it another image. S5 holds for one
// writer.
func tooFew(s *Cluster, by string, old, pod *corev1.Pod) string {
	ref := metav1.GetControllerOf(old)
	if ref == nil || !spec.Serves(old) || spec.Serves(pod) {
		return ""
	}
	for name, p := range s.processes {
		if name != by && !p.dead {
			return ""
		}
	}
	specs := apiserver.Versions[*v1.Pod2](s.Server, "pod2s", ref.UID, window(s, "pod2s"))
	if len(specs) == 0 {
		return ""
	}
	return spec.TooFew(old, othersServing(s, ref.UID, old.UID, spec.MinReady(specs)), specs, time.Now())
}

// othersServing returns the available pods of a Pod2, except one. A pod that was taken by
// anything other than a run still counts while a run may not know of it: no precondition on
// another pod could have told the run.
func othersServing(s *Cluster, pod2, but types.UID, minReady time.Duration) (others []*corev1.Pod) {
	since, decided := window(s, "pods"), map[types.UID]bool{but: true}
	for _, c := range slices.Backward(s.History()) {
		pod, ok := c.New.Object.(*corev1.Pod)
		if !ok || decided[pod.UID] {
			continue
		}
		ref := metav1.GetControllerOf(pod)
		switch {
		case !c.Removed && spec.Available(pod, minReady, time.Now()) && ref != nil && ref.UID == pod2:
			others = append(others, pod)
			decided[pod.UID] = true
		case c.New.Number <= since, isRun(s, c.By) && c.Old != nil && spec.Serves(c.Old.Object.(*corev1.Pod)):
			decided[pod.UID] = true
		}
	}
	return others
}
