package pod2

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// render writes a pod, one field a line, without its containers.
func render(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	pod = pod.DeepCopy()
	pod.Spec.Containers = nil
	var lines []string
	for name, value := range map[string]any{"metadata": pod.ObjectMeta, "spec": pod.Spec} {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, name+" "+string(canonical(raw)))
	}
	if strings.HasPrefix(lines[0], "spec") {
		lines[0], lines[1] = lines[1], lines[0]
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), pod.Labels[v1.PodTemplateHashLabel], "HASH")
}

func TestBuild(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		change     func(*v1.Pod2)
		want       string
	}{
		{"plain", "replicas=1", func(*v1.Pod2) {}, `
			metadata {"labels":{"samplecrd.k8s.io/managed":"true","samplecrd.k8s.io/pod-index":"0","samplecrd.k8s.io/pod-template-hash":"HASH","samplecrd.k8s.io/pod2":"web"},"name":"web-0","namespace":"default","ownerReferences":[{"apiVersion":"samplecrd.k8s.io/v1","blockOwnerDeletion":true,"controller":true,"kind":"Pod2","name":"web","uid":"u-web"}]}
			spec {"hostname":"web-0"}`},
		{"labels: the controller's over the template's over the Pod2's", "replicas=1 start=3", func(p *v1.Pod2) {
			p.Labels = map[string]string{"a": "pod2", "b": "pod2", v1.ManagedLabel: "no"}
			p.Spec.Template.Labels = map[string]string{"b": "template", v1.PodIndexLabel: "99"}
		}, `
			metadata {"annotations":{"samplecrd.k8s.io/pod2-labels":"{\"a\":\"pod2\"}"},"labels":{"a":"pod2","b":"template","samplecrd.k8s.io/managed":"true","samplecrd.k8s.io/pod-index":"3","samplecrd.k8s.io/pod-template-hash":"HASH","samplecrd.k8s.io/pod2":"web"},"name":"web-3","namespace":"default","ownerReferences":[{"apiVersion":"samplecrd.k8s.io/v1","blockOwnerDeletion":true,"controller":true,"kind":"Pod2","name":"web","uid":"u-web"}]}
			spec {"hostname":"web-3"}`},
		{"on a Network, with finalizers and gates of other users", "replicas=1 networks=blue=10.0.0.9 service=db", func(p *v1.Pod2) {
			p.Spec.Template.ObjectMeta = metav1.ObjectMeta{Name: "x", Namespace: "y", Finalizers: []string{"example.com/f"},
				Annotations: map[string]string{"c": "d", v1.NetworksAnnotation: "red", v1.AddressesAnnotation: "{}"}}
			p.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/g"}}
		}, `
			metadata {"annotations":{"c":"d","samplecrd.k8s.io/networks":"blue=10.0.0.9","samplecrd.k8s.io/pod2-request":"blue=10.0.0.9"},"finalizers":["example.com/f"],"labels":{"samplecrd.k8s.io/managed":"true","samplecrd.k8s.io/pod-index":"0","samplecrd.k8s.io/pod-template-hash":"HASH","samplecrd.k8s.io/pod2":"web"},"name":"web-0","namespace":"default","ownerReferences":[{"apiVersion":"samplecrd.k8s.io/v1","blockOwnerDeletion":true,"controller":true,"kind":"Pod2","name":"web","uid":"u-web"}]}
			spec {"hostname":"web-0","schedulingGates":[{"name":"example.com/g"},{"name":"samplecrd.k8s.io/addresses"}],"subdomain":"db"}`},
		{"the template asks for the Network, and has the gate", "replicas=1", func(p *v1.Pod2) {
			p.Spec.Template.Annotations = map[string]string{v1.NetworksAnnotation: "red"}
			p.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}
			p.Spec.Template.Spec.Hostname = "x"
		}, `
			metadata {"annotations":{"samplecrd.k8s.io/networks":"red","samplecrd.k8s.io/pod2-request":"red"},"labels":{"samplecrd.k8s.io/managed":"true","samplecrd.k8s.io/pod-index":"0","samplecrd.k8s.io/pod-template-hash":"HASH","samplecrd.k8s.io/pod2":"web"},"name":"web-0","namespace":"default","ownerReferences":[{"apiVersion":"samplecrd.k8s.io/v1","blockOwnerDeletion":true,"controller":true,"kind":"Pod2","name":"web","uid":"u-web"}]}
			spec {"hostname":"web-0","schedulingGates":[{"name":"samplecrd.k8s.io/addresses"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, tt.spec)
			tt.change(s.Pod2)
			if got, want := render(t, Diff(s).Create[0].Pod()), block(tt.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// The next sync finds that a built pod is up to date: no pod is created only to be
// replaced.
func TestBuiltPodIsUpdated(t *testing.T) {
	for _, spec := range []string{"replicas=3", "replicas=3 start=5 networks=green,blue=10.0.0.8|10.0.0.9 service=db", "replicas=3 recreate networks=blue"} {
		s := state(t, spec)
		for _, c := range Diff(s).Create {
			s.Pods = append(s.Pods, c.Pod())
		}
		if got := actions(s); got != "" {
			t.Errorf("%s: %s", spec, got)
		}
	}
}
