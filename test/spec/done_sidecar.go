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
//   - The condition Ready is about the present generation. If it is True, new pods get its
//     parts.
//   - The status counts the pods that have the Sidecar and run, or will run.
//   - The strategy InPlace has updated all pods that differ in images only, except as many
//     as partition, unless pods that are not Ready prevent it.
func SidecarDone(c *Cluster, s *v1.Sidecar) string {
	if s.DeletionTimestamp != nil {
		return ""
	}
	ready, injected := meta.FindStatusCondition(s.Status.Conditions, v1.ConditionReady), s.Status.Injected
	switch {
	case ready == nil || ready.ObservedGeneration != s.Generation || s.Status.ObservedGeneration != s.Generation:
		return "the status is about an earlier spec"
	case ready.Status != metav1.ConditionTrue:
	case injected == nil || !equality.Semantic.DeepEqual(parts(injected.Spec), parts(s.Spec)):
		return "the Sidecar is Ready, and pods get another generation"
	}
	var matched, upToDate, readyPods, behind int32
	for _, pod := range c.Pods {
		ends := pod.CreationTimestamp.Before(&s.CreationTimestamp) || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		for element := range strings.SplitSeq(pod.Annotations[v1.SidecarsAnnotation], ",") {
			generation, has := strings.CutPrefix(element, s.Name+"=")
			if !has || ends {
				continue
			}
			matched++
			var number int64
			_, _ = fmt.Sscanf(generation, "%d/", &number) // 0 for other text
			switch {
			case injected == nil:
			case number == injected.Generation:
				upToDate++
				if why := otherImage(pod, injected.Spec); why != "" {
					return why
				}
			case injected.InPlaceFrom <= number && number < injected.Generation:
				behind++
			}
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
					readyPods++
				}
			}
		}
	}
	strategy := s.Spec.UpdateStrategy
	if behind > strategy.Partition && readyPods == matched && strategy.Type != v1.UpdateOnRecreate && !strategy.Paused && ready.Status == metav1.ConditionTrue {
		return fmt.Sprintf("%d pods have images of earlier generations, and partition is %d", behind, strategy.Partition)
	}
	if s.Status.Matched != matched || s.Status.UpToDate != upToDate || s.Status.Ready != readyPods {
		return fmt.Sprintf("the status counts matched %d, upToDate %d, ready %d, and the pods are %d, %d, %d",
			s.Status.Matched, s.Status.UpToDate, s.Status.Ready, matched, upToDate, readyPods)
	}
	return ""
}

// parts returns the fields of a spec that change pods.
func parts(spec v1.SidecarSpec) v1.SidecarSpec {
	spec.WhenNotReady, spec.UpdateStrategy = "", v1.SidecarUpdateStrategy{}
	return spec
}

// otherImage returns a container of a Sidecar that has another image in a pod.
func otherImage(pod *corev1.Pod, spec v1.SidecarSpec) string {
	for _, want := range spec.Containers {
		for _, is := range pod.Spec.Containers {
			if is.Name == want.Name && is.Image != want.Image {
				return fmt.Sprintf("container %s of %s has image %s, and its annotation names a generation with %s", is.Name, pod.Name, is.Image, want.Image)
			}
		}
	}
	return ""
}
