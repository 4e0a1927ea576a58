package pod2

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// Defaulted is a stored Pod2 as State wants it. The template stays as it is
// stored: a default of a later release would change its hash, and that would
// replace every pod.
func Defaulted(stored *v1.Pod2) *v1.Pod2 {
	p := stored.DeepCopy()
	v1.SetObjectDefaults_Pod2(p)
	p.Spec.Template = stored.Spec.Template
	return p
}

// Concerned are the names of the Pod2s in whose State the pod is, each once: the
// one whose label it carries, the one that controls it, and the one that a replica
// of this name would belong to.
func Concerned(pod *corev1.Pod) []string {
	var names []string
	if name := pod.Labels[v1.Pod2Label]; name != "" {
		names = append(names, name)
	}
	if owner := metav1.GetControllerOfNoCopy(pod); IsOwner(owner) {
		names = append(names, owner.Name)
	}
	if end := strings.LastIndexByte(pod.Name, '-'); end > 0 {
		if _, replica := ordinals.Parse(pod.Name[:end], pod.Name); replica {
			names = append(names, pod.Name[:end])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Requested gives, by ordinal, the value of the annotation v1.NetworksAnnotation
// of the replicas that the spec wants.
func Requested(p *v1.Pod2) func(ordinal int32) string { return newRequests(p, ContentOf(p)).of }
