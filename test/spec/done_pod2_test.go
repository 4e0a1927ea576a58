package spec

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// rolledOut is Pod2 web with two replicas.
func rolledOut() *Cluster {
	p := webOf(2)
	p.Generation = 3
	p.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	p.Status = v1.Pod2Status{
		ObservedGeneration: 3, UpdateRevision: "web-x", CurrentRevision: "web-x", Replicas: 2, AvailableReplicas: 2,
		Conditions: []metav1.Condition{{Type: v1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 3}},
	}
	c := &Cluster{Now: now, Pod2s: []*v1.Pod2{p}, Pods: podsOf("web-0 of=web hash=x labels ready=60", "web-1 of=web hash=x labels ready=60")}
	owners := podOf("x of=web").OwnerReferences
	c.Revisions = []*appsv1.ControllerRevision{{
		ObjectMeta: metav1.ObjectMeta{Name: "web-x", Labels: map[string]string{v1.PodTemplateHashLabel: "x"}, OwnerReferences: owners}, Revision: 2, Data: runtime.RawExtension{Raw: []byte(`{"template":{}}`)},
	}}
	for i, name := range []string{"data-web-0", "data-web-1"} {
		c.Claims = append(c.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.Pod2Label: "web", v1.PodIndexLabel: string(rune('0' + i))}}})
	}
	return c
}

func TestPod2Done(t *testing.T) {
	add := func(c *Cluster, text string) { c.Pods = append(c.Pods, podOf(text)) }
	old := func(c *Cluster) { c.Pods[1].Labels[v1.PodTemplateHashLabel] = "old" }
	checkDone(t, rolledOut, func(c *Cluster) string { return Pod2Done(c, c.Pod2s[0]) }, []doneTest{
		{"it is being deleted", "", func(c *Cluster) { c.Pods, c.Pod2s[0].DeletionTimestamp = nil, ptr.To(metav1.NewTime(now)) }},
		{"no revision", "no revision of the spec", func(c *Cluster) { c.Revisions = nil }},
		{"another template", "differs from the spec", func(c *Cluster) { c.Pod2s[0].Spec.Template.Spec.Hostname = "x" }},
		{"a newer revision", "is newer", func(c *Cluster) {
			newer := c.Revisions[0].DeepCopy()
			newer.Name, newer.Revision = "web-y", 3
			c.Revisions = append(c.Revisions, newer)
		}},
		{"too many revisions", "revisions are kept", func(c *Cluster) {
			c.Pod2s[0].Spec.RevisionHistoryLimit = ptr.To[int32](0)
			idle := c.Revisions[0].DeepCopy()
			idle.Name, idle.Revision, idle.Labels = "web-y", 1, map[string]string{v1.PodTemplateHashLabel: "y"}
			c.Revisions = append(c.Revisions, idle)
		}},
		{"missing", "pod web-1 is missing", func(c *Cluster) { c.Pods = c.Pods[:1] }},
		{"missing, and its PVC has another owner", "L5", func(c *Cluster) {
			c.Pods, c.Claims[1].Labels[v1.Pod2Label], c.Pod2s[0].Status.ObservedGeneration = c.Pods[:1], "db", 2
		}},
		{"one pod too many", "pod web-2 has no place", func(c *Cluster) { add(c, "web-2 of=web hash=x labels") }},
		{"a surplus pod that still serves", "the status counts", func(c *Cluster) {
			add(c, "web-2 of=web hash=x labels ready=60")
			c.Pods[0], c.Pods[1] = podOf("web-0 of=web hash=x labels"), podOf("web-1 of=web hash=x labels")
		}},
		{"terminated", "pod web-1 has terminated, and is not in the backoff record", func(c *Cluster) { c.Pods[1] = podOf("web-1 of=web hash=x labels failed") }},
		{"terminated long ago", "its backoff is past", func(c *Cluster) {
			c.Pods[1] = podOf("web-1 of=web hash=x labels failed")
			c.Pod2s[0].Annotations = map[string]string{v1.BackoffAnnotation: `{"web-1":{"uid":"u-web-1","since":"2026-01-02T14:59:05Z"}}`}
		}},
		{"a record for no replica", "not a replica", func(c *Cluster) {
			c.Pod2s[0].Annotations = map[string]string{v1.BackoffAnnotation: `{"web-7":{"uid":"u","since":"2026-01-02T14:59:05Z"}}`}
		}},
		{"without labels", "should have", func(c *Cluster) { delete(c.Pods[1].Labels, v1.ManagedLabel) }},
		{"without the labels of the Pod2", "its Pod2 has", func(c *Cluster) { c.Pod2s[0].Labels = map[string]string{"team": "a"} }},
		{"earlier revision", "pod web-1 has an earlier revision", old},
		{"earlier revision, paused", "", func(c *Cluster) { old(c); c.Pod2s[0].Spec.Paused = true }},
		{"another address", "pod web-1 has an earlier revision", func(c *Cluster) { c.Pods[1].Annotations[v1.Pod2RequestAnnotation] = "blue" }},
		{"L5", "L5: the status is about an earlier spec", func(c *Cluster) { c.Pod2s[0].Generation = 4 }},
		{"counted wrongly", "the status counts", func(c *Cluster) { c.Pod2s[0].Status.AvailableReplicas = 1 }},
		{"Ready without a replica", "the Pod2 is Ready, but web-1 is not available", func(c *Cluster) {
			c.Pods[1], c.Pod2s[0].Status.AvailableReplicas = podOf("web-1 of=web hash=x labels ready=5"), 1
		}},
		{"no PVC", "PVC data-web-1 of a pod is missing", func(c *Cluster) { c.Claims = c.Claims[:1] }},
		{"PVC without labels", "lacks the labels", func(c *Cluster) { c.Claims[1].Labels = nil }},
		{"PVC with a surge mark", "is marked as a surge replica's", func(c *Cluster) { c.Claims[1].Annotations = map[string]string{v1.SurgeClaimAnnotation: "true"} }},
		{"PVC against the policy", "against the policy", func(c *Cluster) { c.Claims[1].OwnerReferences = c.Pods[0].OwnerReferences }},
		{"PVC without a pod", "is not to be retained", func(c *Cluster) {
			c.Pod2s[0].Spec.PersistentVolumeClaimRetentionPolicy = &v1.Pod2ClaimRetentionPolicy{WhenScaled: v1.DeleteClaim}
			left := c.Claims[1].DeepCopy()
			left.Name, left.Labels[v1.PodIndexLabel] = "data-web-2", "2"
			c.Claims = append(c.Claims, left)
		}},
	})
}

func TestLeftAtTheEnd(t *testing.T) {
	checkDone(t, settled, func(c *Cluster) string { return c.Leaks() + c.Unrecorded() }, []doneTest{
		{"S9 an entry", "S9: 10.0.0.2 is bound to web-0, which is gone", func(c *Cluster) { c.Pods = nil }},
		{"S9 an AddressBlock", "S9: AddressBlock blue-10.0.0.0", func(c *Cluster) { c.Networks, c.Blocks[0].Spec.Entries, c.Pods = nil, nil, nil }},
		{"S8 an address", "S8: pod web-0 publishes 10.0.0.2", func(c *Cluster) { c.Blocks = nil }},
	})
	checkDone(t, rolledOut, func(c *Cluster) string { return c.Whole(c.Pod2s[0], true) }, []doneTest{
		{"missing", "L1: web-1 is missing", func(c *Cluster) { c.Pods = c.Pods[:1] }},
		{"another owner", "L1: web-1 is not controlled by its Pod2", func(c *Cluster) { c.Pods[1].OwnerReferences = nil }},
		{"another template", "L1: web-1 has another template", func(c *Cluster) { c.Pods[1].Labels[v1.PodTemplateHashLabel] = "old" }},
		{"not Ready", "L1: web-1 is not Ready", func(c *Cluster) { c.Pods[1].Status = corev1.PodStatus{} }},
	})
}

func TestNamesDone(t *testing.T) {
	given := func() *Cluster {
		p := webOf(1)
		p.Spec.Networks = []v1.Pod2Network{{Name: "blue"}}
		p.Status.Conditions = []metav1.Condition{isTrue(v1.ConditionDNSPublished)}
		pod := podOf("web-0 of=web has=10.0.0.2/29 ready=60")
		labels := map[string]string{v1.Pod2Label: "web", v1.NetworkLabel: "blue", discoveryv1.LabelServiceName: "web-blue", discoveryv1.LabelManagedBy: "pod2-controller"}
		return &Cluster{
			Now: now, Pod2s: []*v1.Pod2{p}, Pods: []*corev1.Pod{pod},
			Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "web-blue", Labels: labels, OwnerReferences: pod.OwnerReferences}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true}}},
			EndpointSlices: []*discoveryv1.EndpointSlice{{ObjectMeta: metav1.ObjectMeta{Name: "web-blue-0", Labels: labels, OwnerReferences: pod.OwnerReferences}, Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"10.0.0.2"}, Hostname: ptr.To("web-0"), TargetRef: &corev1.ObjectReference{UID: pod.UID},
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
			}}}},
		}
	}
	checkDone(t, given, func(c *Cluster) string { return NamesDone(c, c.Pod2s[0]) }, []doneTest{
		{"no Service", "has no Service of its Pod2", func(c *Cluster) { c.Services = nil }},
		{"no Service and no EndpointSlice", "there is no Service web-blue", func(c *Cluster) { c.Services, c.EndpointSlices = nil, nil }},
		{"a Service with ports", "without ports", func(c *Cluster) { c.Services[0].Spec.Ports = []corev1.ServicePort{{Port: 80}} }},
		{"a selector", "without selector", func(c *Cluster) { c.Services[0].Spec.Selector = map[string]string{"a": "b"} }},
		{"an unused Service", "is not needed", func(c *Cluster) { c.Pod2s[0].Spec.Networks, c.Pods = nil, nil }},
		{"no EndpointSlice", "has no name for 10.0.0.2", func(c *Cluster) { c.EndpointSlices = nil }},
		{"another address", "has no name for 10.0.0.3", func(c *Cluster) { c.Pods[0] = podOf("web-0 of=web has=10.0.0.3/29 ready=60") }},
		{"no longer Ready", "has no name for", func(c *Cluster) { c.Pods[0].Status = corev1.PodStatus{} }},
		{"an address of no replica", "which no replica has", func(c *Cluster) {
			more := c.EndpointSlices[0].Endpoints[0]
			more.Addresses = []string{"10.0.0.9"}
			c.EndpointSlices[0].Endpoints = append(c.EndpointSlices[0].Endpoints, more)
		}},
		{"an EndpointSlice without owner", "has no owner", func(c *Cluster) { c.EndpointSlices[0].OwnerReferences = nil }},
		{"no condition", "is missing", func(c *Cluster) { c.Pod2s[0].Status.Conditions = nil }},
		{"condition True too early", "is True", func(c *Cluster) {
			c.Services[0].OwnerReferences, c.Services[0].Labels, c.EndpointSlices = nil, nil, nil
		}},
	})
	if why := NamesDone(given(), nil); why != "" {
		t.Errorf("the garbage collector deletes the EndpointSlices of a deleted Pod2, but got: %s", why)
	}
}
