package spec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// SidecarDone describes the remaining work for a Sidecar.
//
//   - The condition Ready is about the present generation. If it is True, new pods get this
//     generation.
//   - The status counts the pods that have the Sidecar and run, or will run.
func SidecarDone(c *Cluster, s *v1.Sidecar) string {
	if s.DeletionTimestamp != nil {
		return ""
	}
	ready, injected := meta.FindStatusCondition(s.Status.Conditions, v1.ConditionReady), s.Status.Injected
	switch {
	case ready == nil || ready.ObservedGeneration != s.Generation || s.Status.ObservedGeneration != s.Generation:
		return "the status is about an earlier spec"
	case ready.Status != metav1.ConditionTrue:
	case injected == nil || injected.Generation != s.Generation || !equality.Semantic.DeepEqual(injected.Spec, s.Spec):
		return "the Sidecar is Ready, and pods get another generation"
	}
	var matched, upToDate, readyPods int32
	for _, pod := range c.Pods {
		ends := pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		for element := range strings.SplitSeq(pod.Annotations[v1.SidecarsAnnotation], ",") {
			generation, has := strings.CutPrefix(element, s.Name+"=")
			if !has || ends {
				continue
			}
			matched++
			if injected != nil && strings.HasPrefix(generation, fmt.Sprintf("%d/", injected.Generation)) {
				upToDate++
			}
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
					readyPods++
				}
			}
		}
	}
	if s.Status.Matched != matched || s.Status.UpToDate != upToDate || s.Status.Ready != readyPods {
		return fmt.Sprintf("the status counts matched %d, upToDate %d, ready %d, and the pods are %d, %d, %d",
			s.Status.Matched, s.Status.UpToDate, s.Status.Ready, matched, upToDate, readyPods)
	}
	return ""
}
