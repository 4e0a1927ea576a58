package sidecar

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// State is the only input of one decision about one Sidecar: one view, read from caches.
type State struct {
	Now time.Time
	// Sidecar is never nil.
	Sidecar *v1.Sidecar
	// Others are the other Sidecars of the namespace, in name order.
	Others []*v1.Sidecar
	// Pods have the Sidecar, by their annotation.
	Pods []*corev1.Pod
	// SparesNone are the Pod2s that never let a replica become unavailable for an update.
	SparesNone map[string]bool
}

// Generations returns the Sidecars of a pod, each with its generation. An element that is
// none is left out.
func Generations(pod *corev1.Pod) map[string]int64 {
	text, ok := pod.Annotations[v1.SidecarsAnnotation]
	if !ok { // most pods have none
		return nil
	}
	var generations map[string]int64
	for element := range strings.SplitSeq(text, ",") {
		name, rest, _ := strings.Cut(element, "=")
		number, _, _ := strings.Cut(rest, "/")
		generation, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue
		}
		if generations == nil {
			generations = map[string]int64{}
		}
		generations[name] = generation
	}
	return generations
}
