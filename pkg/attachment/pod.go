package attachment

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Requests returns the Networks that the pod asks for, in name order. A pod without the
// annotation asks for none: nil and no error. An empty annotation is an error, like any
// other that does not parse.
func Requests(pod *corev1.Pod) ([]Request, error) {
	annotation, ok := pod.Annotations[v1.NetworksAnnotation]
	if !ok {
		return nil, nil
	}
	requests, err := ParseRequests(annotation)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", v1.NetworksAnnotation, err)
	}
	return requests, nil
}

// Published returns the addresses in the pod's annotation, by Network; nil if there are
// none. An unreadable annotation counts as none. The controller writes it once and whole,
// so another client has changed it since. The AddressBlock, not the annotation, says
// which pod holds an address.
func Published(pod *corev1.Pod) map[string]Address {
	annotation := pod.Annotations[v1.AddressesAnnotation]
	if annotation == "" { // most events of a new pod come before its addresses
		return nil
	}
	addresses, err := ParseAddresses(annotation)
	if err != nil {
		return nil
	}
	return addresses
}

// Gated reports whether our scheduling gate keeps the pod from being scheduled
// (KEP-3521). A gate can only be set on creation: a pod without it never gets it.
func Gated(pod *corev1.Pod) bool { return GateIndex(pod) >= 0 }

// GateIndex returns the position of our scheduling gate in the list of all, or -1.
func GateIndex(pod *corev1.Pod) int {
	return slices.IndexFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == v1.AddressesGate
	})
}

// Over reports whether no container of the pod can run any more: its phase is Succeeded
// or Failed, and both are final. A terminating pod has not terminated.
func Over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Condition returns the pod's own condition of this type, or nil.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// Ready reports whether the condition Ready of the pod is True.
func Ready(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// The lengths that the schema of v1.AddressOwner allows. An owner reference has no limit
// of its own. With a longer one, the API server would refuse the AddressBlock, with the
// addresses of other pods in it.
const (
	maxOwnerKind = 63
	maxOwnerName = 253
)

// Owner returns kind and name of the pod's controller. It is zero for a bare pod, and for
// an owner that no API server could store. The owner of a Deployment's pod is a
// ReplicaSet.
func Owner(pod *corev1.Pod) v1.AddressOwner {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || len(ref.Kind) > maxOwnerKind || len(ref.Name) > maxOwnerName {
		return v1.AddressOwner{}
	}
	return v1.AddressOwner{Kind: ref.Kind, Name: ref.Name}
}
