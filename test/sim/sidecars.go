package sim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
)

// addSidecars adds the containers of Sidecars as the policy pod2-sidecars does.
func (w *World) addSidecars(obj apiserver.Object) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Labels[v1.SidecarsLabel] == "disabled" {
		return
	}
	for _, found := range w.All(apiserver.ResourceNamed("sidecars"), pod.Namespace) {
		s := found.Object.(*v1.Sidecar)
		in := s.Status.Injected
		if pod.Annotations[v1.SidecarProbeAnnotation] == s.Name {
			in = &v1.SidecarGeneration{Generation: s.Generation, Spec: s.Spec}
		}
		if in == nil || pod.Annotations[v1.SidecarsAnnotation] != "" {
			continue
		}
		if !selects(in.Spec, pod) {
			continue
		}
		pod.Spec.Containers = append(pod.Spec.Containers, in.Spec.Containers...)
		metav1.SetMetaDataLabel(&pod.ObjectMeta, v1.ManagedLabel, "true")
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.SidecarsAnnotation, fmt.Sprintf("%s=%d/0/0/%d", s.Name, in.Generation, len(in.Spec.Containers)))
	}
}

// lacksSidecar refuses a pod as the policy pod2-unready-sidecars does.
func (w *World) lacksSidecar(a apiserver.Attempt) bool {
	pod, ok := a.New.(*corev1.Pod)
	if !ok || pod.Annotations[v1.SidecarProbeAnnotation] != "" || pod.Labels[v1.SidecarsLabel] == "disabled" {
		return false
	}
	return slices.ContainsFunc(w.All(apiserver.ResourceNamed("sidecars"), pod.Namespace), func(found *apiserver.Version) bool {
		s := found.Object.(*v1.Sidecar)
		return s.Status.Injected == nil && selects(s.Spec, pod)
	})
}

func selects(spec v1.SidecarSpec, pod *corev1.Pod) bool {
	for key, value := range spec.Selector {
		if pod.Labels[key] != value {
			return false
		}
	}
	return true
}
