package pod2

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// A controller upgrade never replaces pods, so this value is part of the API.
func TestRevisionHashIsForEver(t *testing.T) {
	hash := RevisionHash(state(t, "replicas=1 networks=green,blue service=db").Pod2)
	if want := "k77r864xwh"; hash != want {
		t.Errorf("got %s, want %s", hash, want)
	}
	if errs := validation.IsValidLabelValue(hash); len(errs) > 0 {
		t.Errorf("%s: %v", hash, errs)
	}
}

func TestRevisionHash(t *testing.T) {
	selecting := func(selector *metav1.LabelSelector) func(*v1.Pod2) {
		return func(p *v1.Pod2) {
			p.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{LabelSelector: selector}}
		}
	}
	for _, tt := range []struct {
		name         string
		one, another func(*v1.Pod2)
		same         bool
	}{
		{"replicas", func(p *v1.Pod2) { p.Spec.Replicas = nil }, func(*v1.Pod2) {}, true},
		{"addresses, which are compared for each replica", func(p *v1.Pod2) { p.Spec.Networks[0].Addresses = []v1.Address{"10.0.0.9"} }, func(*v1.Pod2) {}, true},
		{"labels of the Pod2", func(p *v1.Pod2) { p.Labels = map[string]string{"a": "b"} }, func(*v1.Pod2) {}, true},
		{"Networks in another order", func(p *v1.Pod2) { p.Spec.Networks = []v1.Pod2Network{{Name: "green"}, {Name: "blue"}} }, func(*v1.Pod2) {}, true},
		{"empty and none", func(p *v1.Pod2) {
			p.Spec.Template.Spec.NodeSelector = map[string]string{}
			p.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{}
			p.Spec.Template.Spec.Tolerations = []corev1.Toleration{}
		}, func(*v1.Pod2) {}, true},
		{"an image", func(p *v1.Pod2) { p.Spec.Template.Spec.Containers[0].Image = "nginx:2" }, func(*v1.Pod2) {}, false},
		{"an annotation of kubectl rollout restart", func(p *v1.Pod2) { p.Spec.Template.Annotations = map[string]string{"a": ""} }, func(*v1.Pod2) {}, false},
		{"a Network less", func(p *v1.Pod2) { p.Spec.Networks = p.Spec.Networks[:1] }, func(*v1.Pod2) {}, false},
		{"serviceName", func(p *v1.Pod2) { p.Spec.ServiceName = "" }, func(*v1.Pod2) {}, false},
		{"a selector of everything and one of nothing", selecting(&metav1.LabelSelector{}), selecting(nil), false},
		{"containers in another order", func(p *v1.Pod2) {
			p.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
		}, func(p *v1.Pod2) {
			p.Spec.Template.Spec.Containers = []corev1.Container{{Name: "b"}, {Name: "a"}}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			one, another := state(t, "networks=blue,green service=db").Pod2, state(t, "networks=blue,green service=db").Pod2
			tt.one(one)
			tt.another(another)
			if same := RevisionHash(one) == RevisionHash(another); same != tt.same {
				t.Errorf("same hash: %t, want %t", same, tt.same)
			}
		})
	}
}

// A later API has fields that this one lacks, so its types cannot test them: without a
// value they must not appear.
func TestCanonical(t *testing.T) {
	const in = `{"z":1,"new":null,"list":[{"x":{}},null],"deep":{"deeper":{"none":[]}},"labelSelector":{},"n":12345678901234567890,"s":"","no":false}`
	const want = `{"labelSelector":{},"list":[{},null],"n":12345678901234567890,"no":false,"s":"","z":1}`
	if got := string(canonical([]byte(in))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
