package pod2

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHistory(t *testing.T) {
	s := state(t, "replicas=1 networks=blue")
	s.Revisions[1].Revision = 2
	foreign := s.Revisions[0].DeepCopy()
	foreign.Name, foreign.OwnerReferences = "web-foreign", nil
	s.Pod2.Annotations = map[string]string{ChangeCauseAnnotation: "a reason"}
	s.Pod2.Spec.ServiceName = "db"
	created := readRevisions(s).create
	for _, tt := range []struct {
		name    string
		objects []*appsv1.ControllerRevision
		want    string
	}{
		{"none", nil, ""},
		{"by number, without those of another owner", []*appsv1.ControllerRevision{s.Revisions[1], foreign, s.Revisions[0]},
			`1 web-old nginx:0 "" false, 2 ` + s.Revisions[1].Name + ` nginx:1 "" false`},
		{"the revision of the spec, with its cause", []*appsv1.ControllerRevision{s.Revisions[0], s.Revisions[1], created},
			`1 web-old nginx:0 "" false, 2 ` + s.Revisions[1].Name + ` nginx:1 "" false, 3 ` + created.Name + ` nginx:1 "a reason" true`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range History(s.Pod2, tt.objects) {
				got = append(got, fmt.Sprintf("%d %s %s %q %t", r.Object.Revision, r.Object.Name,
					r.Content.Template.Spec.Containers[0].Image, r.Object.Annotations[ChangeCauseAnnotation], r.Wanted))
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestConcerned(t *testing.T) {
	for name, want := range map[string]string{"web-0": "[web]", "other": "[]", "a-b-12": "[a-b]", "a-01": "[]", "-1": "[]"} {
		if got := fmt.Sprint(Concerned(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "z-1", Labels: map[string]string{"samplecrd.k8s.io/pod2": "label"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "owner"}, pod2Kind)},
	}}
	if got := fmt.Sprint(Concerned(pod)); got != "[label owner z]" {
		t.Errorf("label, owner and name: %s", got)
	}
}
