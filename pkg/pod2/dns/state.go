package dns

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// State is the only input of one decision about the DNS names of one Pod2: one view, read
// from caches.
type State struct {
	// Now is the time in the condition, and decides nothing.
	Now time.Time
	// Pod2 may be terminating. It is nil if there is none; then Slices are those with its
	// label.
	Pod2 *v1.Pod2
	// Pods, in name order, each name once: those that the Pod2 controls, by UID, and maybe others.
	// Decisions read the metadata, spec.nodeName, spec.schedulingGates, the phase and the
	// condition Ready.
	Pods []*corev1.Pod
	// Facts of an earlier decision about this Pod2. They save time and decide nothing.
	Facts Facts
	// Services of the namespace, in name order: those with the Pod2's label, and known
	// ones of any owner that have a name that it wants.
	Services []*corev1.Service
	// Slices of the namespace, in name order, selected in the same way.
	Slices []*discoveryv1.EndpointSlice
}

// ServiceName returns the name of the Service for a Network: web-blue. Two Pod2s may want
// the same name (web on blue-x, web-blue on x): the first gets it.
func ServiceName(pod2, network string) string { return pod2 + "-" + network }
