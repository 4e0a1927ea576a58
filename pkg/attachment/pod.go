package attachment

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Requests returns the Networks that the pod asks for, in name order. A pod
// without the annotation asks for none: nil and no error. One whose annotation
// is there but empty is told so, as any other that does not parse.
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

// Published returns the addresses that the pod was told, by Network; nil when
// it was told none. An annotation that does not parse counts as none: we write
// it whole and once, so somebody else changed it since, and the ledger, not the
// annotation, says who holds what.
func Published(pod *corev1.Pod) map[string]Address {
	addresses, err := ParseAddresses(pod.Annotations[v1.AddressesAnnotation])
	if err != nil {
		return nil
	}
	return addresses
}

// Gated reports whether our gate keeps the pod from being scheduled (KEP-3521).
// A gate is set at create only: a pod that is not gated never will be.
func Gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == v1.AddressesGate
	})
}

// Over reports whether no container of the pod can run any more: its phase is
// Succeeded or Failed, both of which are final. A terminating pod is not over.
func Over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Condition of that type, nil for none; it is the pod's own.
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

// Lengths that the schema of v1.AddressOwner allows. An owner reference has no
// bound of its own, and one that does not fit would have the API server refuse the
// block in which the addresses of others are bound too.
const (
	maxOwnerKind = 63
	maxOwnerName = 253
)

// Owner returns kind and name of the controller of the pod, zero for a bare
// pod and for an owner that no API server could hold. The owner of a Deployment's
// pod is a ReplicaSet.
func Owner(pod *corev1.Pod) v1.AddressOwner {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || len(ref.Kind) > maxOwnerKind || len(ref.Name) > maxOwnerName {
		return v1.AddressOwner{}
	}
	return v1.AddressOwner{Kind: ref.Kind, Name: ref.Name}
}
