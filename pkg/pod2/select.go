package pod2

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// Defaulted returns a stored Pod2 with the defaults that State needs. The template stays
// as stored: a default of a later release would change its hash, and replace every pod.
func Defaulted(stored *v1.Pod2) *v1.Pod2 {
	p := stored.DeepCopy()
	v1.SetObjectDefaults_Pod2(p)
	p.Spec.Template = stored.Spec.Template
	return p
}

// Concerned returns the names of the Pod2s whose State has the pod, each once: the Pod2
// that its label names, the one that controls it, and the one whose replica would have
// its name.
func Concerned(pod *corev1.Pod) []string {
	var names []string
	if name := pod.Labels[v1.Pod2Label]; name != "" {
		names = append(names, name)
	}
	if owner := metav1.GetControllerOfNoCopy(pod); IsOwner(owner) {
		names = append(names, owner.Name)
	}
	if name, _, replica := ordinals.Split(pod.Name); replica && name != "" {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Requested returns, by ordinal, the value of the annotation v1.NetworksAnnotation of the
// replicas that the spec wants.
func Requested(p *v1.Pod2) func(ordinal int32) string { return newRequests(p, ContentOf(p)).of }
