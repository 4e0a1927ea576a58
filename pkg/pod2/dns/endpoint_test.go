package dns

import (
	"net/netip"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestTheEndpointsOfUnchangedPodsAreShared(t *testing.T) {
	s := state(t, "networks=blue", "web-0 blue=10.0.0.1", "web-1 blue=10.0.0.2")
	for !Diff(s).Empty() {
		apply(&s, Diff(s))
	}
	s.Slices[0].Endpoints[0].NodeName = ptr.To("another")
	wanted := Diff(s).Services[0].UpdateSlices[0].Object.Endpoints
	if is := s.Slices[0].Endpoints; wanted[0].TargetRef == is[0].TargetRef || wanted[1].TargetRef != is[1].TargetRef {
		t.Error("the changed endpoint is shared, or the other one is not")
	}
}

func TestTheListOfRightEndpointsIsShared(t *testing.T) {
	s := state(t, "networks=blue", "web-0 blue=10.0.0.1", "web-1 blue=10.0.0.2")
	for !Diff(s).Empty() {
		apply(&s, Diff(s))
	}
	if wanted := look(s).services[0].slices[0].Endpoints; !sameArray(wanted, s.Slices[0].Endpoints) || len(wanted) != 2 {
		t.Error("the endpoints are copied")
	}
}

func TestTheCurrentSliceStaysUnchanged(t *testing.T) {
	s := state(t, "networks=blue", "web-0 blue=10.0.0.1", "web-1 blue=10.0.0.2")
	for !Diff(s).Empty() {
		apply(&s, Diff(s))
	}
	s.Slices[0].Endpoints[1].NodeName = ptr.To("another")
	before := s.Slices[0].DeepCopy()
	if Diff(s); !reflect.DeepEqual(s.Slices[0], before) {
		t.Errorf("the decision changed the observed slice: %v", s.Slices[0])
	}
}

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
			t.Errorf("the endpoint of a pod on node %q is built anew", pod.Spec.NodeName)
		}
		changes := map[string]func(*discoveryv1.Endpoint){
			"Addresses":          func(e *discoveryv1.Endpoint) { e.Addresses[0] = "2001:db8::2" },
			"Addresses, two":     func(e *discoveryv1.Endpoint) { e.Addresses = append(e.Addresses, "2001:db8::2") },
			"Addresses, none":    func(e *discoveryv1.Endpoint) { e.Addresses = nil },
			"Hostname":           func(e *discoveryv1.Endpoint) { e.Hostname = ptr.To("web-1") },
			"Hostname, none":     func(e *discoveryv1.Endpoint) { e.Hostname = nil },
			"NodeName":           func(e *discoveryv1.Endpoint) { e.NodeName = ptr.To("node-2") },
			"NodeName, empty":    func(e *discoveryv1.Endpoint) { e.NodeName = ptr.To("") },
			"Ready":              func(e *discoveryv1.Endpoint) { *e.Conditions.Ready = false },
			"Serving":            func(e *discoveryv1.Endpoint) { *e.Conditions.Serving = !*e.Conditions.Serving },
			"Serving, none":      func(e *discoveryv1.Endpoint) { e.Conditions.Serving = nil },
			"Terminating":        func(e *discoveryv1.Endpoint) { *e.Conditions.Terminating = !*e.Conditions.Terminating },
			"TargetRef":          func(e *discoveryv1.Endpoint) { e.TargetRef.UID = "uid-1" },
			"TargetRef, version": func(e *discoveryv1.Endpoint) { e.TargetRef.ResourceVersion = "1" },
			"TargetRef, none":    func(e *discoveryv1.Endpoint) { e.TargetRef = nil },
			"DeprecatedTopology": func(e *discoveryv1.Endpoint) { e.DeprecatedTopology = map[string]string{"rack": "1"} },
			"Zone":               func(e *discoveryv1.Endpoint) { e.Zone = ptr.To("a") },
			"Hints":              func(e *discoveryv1.Endpoint) { e.Hints = &discoveryv1.EndpointHints{} },
		}
		for field, change := range changes {
			e := endpoint(pod, address)
			if change(&e); isEndpoint(&e, pod, address) {
				t.Errorf("an endpoint that differs in %s is kept", field)
			}
		}
		for _, kind := range []reflect.Type{reflect.TypeFor[discoveryv1.Endpoint](), reflect.TypeFor[discoveryv1.EndpointConditions]()} {
			for i := range kind.NumField() {
				if name := kind.Field(i).Name; name != "Conditions" && changes[name] == nil {
					t.Errorf("no change of %s is tried", name)
				}
			}
		}
	}
}
