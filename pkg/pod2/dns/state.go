package dns

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// State is all that one decision about the names of one Pod2 is made from: one
// view, read from caches.
type State struct {
	// Now dates the condition, and decides nothing.
	Now time.Time
	// Pod2 may be terminating. It is nil when there is none; then Slices are those that
	// carry its label.
	Pod2 *v1.Pod2
	// Pods, in name order: those that the Pod2 controls, by UID, and maybe others.
	// Of each, decisions read metadata, spec.nodeName, spec.schedulingGates, and of
	// the status the phase and the condition Ready.
	Pods []*corev1.Pod
	// Services of the namespace, in name order: those that carry the Pod2's label,
	// and those known to have a name that it wants, whoever's they are.
	Services []*corev1.Service
	// Slices of the namespace, in name order, likewise.
	Slices []*discoveryv1.EndpointSlice
}

// ServiceName is the name of the Service for a Network: web-blue. Two Pod2s may
// want one name (web on blue-x, web-blue on x): the first has it.
func ServiceName(pod2, network string) string { return pod2 + "-" + network }
