package pod2

import (
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/spec"
)

// objects returns the objects of a State as an API server has them. A pod with a
// container that is about to restart counts as not Ready, even if the kubelet last
// reported Ready.
func objects(s State) *spec.Cluster {
	c := &spec.Cluster{Now: s.Now, Pod2s: []*v1.Pod2{s.Pod2}, Revisions: s.Revisions, Claims: s.Claims, Classes: s.StorageClasses, Networks: s.Networks}
	for _, pod := range s.Pods {
		c.Pods = append(c.Pods, asServed(pod))
	}
	for _, h := range s.Holders {
		c.Blocks = append(c.Blocks, &v1.AddressBlock{Spec: v1.AddressBlockSpec{Network: h.Network, Entries: []v1.AddressEntry{h.AddressEntry}}})
	}
	return c
}

func asServed(pod *corev1.Pod) *corev1.Pod {
	if restartsNow(pod) == "" {
		return pod
	}
	pod = pod.DeepCopy()
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status = corev1.ConditionFalse
		}
	}
	return pod
}

// undone returns the work left for the Pod2 of a State.
func undone(s State) string { return spec.Pod2Done(objects(s), s.Pod2) }
