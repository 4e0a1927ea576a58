package dns

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestOnlyTheEndpointOfAPodIsKept(t *testing.T) {
	address := netip.MustParseAddr("2001:db8::1")
	ready := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "uid-0"}, Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	going := ready.DeepCopy()
	going.DeletionTimestamp, going.Spec.NodeName, going.Status = &metav1.Time{}, "", corev1.PodStatus{}
	for _, pod := range []*corev1.Pod{ready, going} {
		if e := endpoint(pod, address); !isEndpoint(&e, pod, address) {
			t.Errorf("the endpoint of %v is built anew", pod.ObjectMeta)
		}
		for field, change := range map[string]func(*discoveryv1.Endpoint){
			"address":         func(e *discoveryv1.Endpoint) { e.Addresses[0] = "2001:db8::2" },
			"two addresses":   func(e *discoveryv1.Endpoint) { e.Addresses = append(e.Addresses, "2001:db8::2") },
			"no address":      func(e *discoveryv1.Endpoint) { e.Addresses = nil },
			"hostname":        func(e *discoveryv1.Endpoint) { e.Hostname = ptr.To("web-1") },
			"no hostname":     func(e *discoveryv1.Endpoint) { e.Hostname = nil },
			"node":            func(e *discoveryv1.Endpoint) { e.NodeName = ptr.To("node-2") },
			"empty node":      func(e *discoveryv1.Endpoint) { e.NodeName = ptr.To("") },
			"not ready":       func(e *discoveryv1.Endpoint) { *e.Conditions.Ready = false },
			"serving":         func(e *discoveryv1.Endpoint) { *e.Conditions.Serving = !*e.Conditions.Serving },
			"serving unknown": func(e *discoveryv1.Endpoint) { e.Conditions.Serving = nil },
			"terminating":     func(e *discoveryv1.Endpoint) { *e.Conditions.Terminating = !*e.Conditions.Terminating },
			"UID":             func(e *discoveryv1.Endpoint) { e.TargetRef.UID = "uid-1" },
			"version":         func(e *discoveryv1.Endpoint) { e.TargetRef.ResourceVersion = "1" },
			"no pod":          func(e *discoveryv1.Endpoint) { e.TargetRef = nil },
			"topology":        func(e *discoveryv1.Endpoint) { e.DeprecatedTopology = map[string]string{"rack": "1"} },
			"zone":            func(e *discoveryv1.Endpoint) { e.Zone = ptr.To("a") },
			"hints":           func(e *discoveryv1.Endpoint) { e.Hints = &discoveryv1.EndpointHints{} },
		} {
			e := endpoint(pod, address)
			if change(&e); isEndpoint(&e, pod, address) {
				t.Errorf("an endpoint with another %s is kept", field)
			}
		}
	}
}
