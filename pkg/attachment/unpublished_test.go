package attachment

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestUnpublished(t *testing.T) {
	const (
		blue  = `{"blue":{"address":"10.0.0.2/24","mac":"0a:58:0a:00:00:02"}}`
		ours  = `{"name":"blue","namespace":"ns","interface":"net2","ips":["10.0.0.2/24"],"mac":"0a:58:0a:00:00:02"}`
		other = `{"name":"storage","ips":["10.9.0.2/24"]}`
	)
	for _, tt := range []struct{ name, key, addresses, in, want string }{
		{"only our element", v1.MultusAnnotation, blue, `[` + ours + `]`, ``},
		{"our element after another", v1.MultusAnnotation, blue, `[` + other + `,` + ours + `]`, `[` + other + `]`},
		{"our element as the default network", v1.MultusDefaultAnnotation, blue, `[` + ours + `]`, ``},
		{"of another address", v1.MultusAnnotation, `{"blue":{"address":"10.0.0.3/24","mac":"0a:58:0a:00:00:02"}}`, `[` + ours + `]`, `[` + ours + `]`},
		{"of another MAC", v1.MultusAnnotation, `{"blue":{"address":"10.0.0.2/24","mac":"0a:58:0a:00:00:03"}}`, `[` + ours + `]`, `[` + ours + `]`},
		{"of another Network", v1.MultusAnnotation, `{"red":{"address":"10.0.0.2/24","mac":"0a:58:0a:00:00:02"}}`, `[` + ours + `]`, `[` + ours + `]`},
		{"the short form", v1.MultusAnnotation, blue, `blue, storage`, `blue, storage`},
		{"unreadable", v1.MultusAnnotation, blue, `[{`, `[{`},
		{"none published", v1.MultusAnnotation, ``, `[` + ours + `]`, `[` + ours + `]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{tt.key: tt.in, v1.AddressesAnnotation: tt.addresses}}}
			if got := Unpublished(pod)[tt.key]; got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestUnpublishedChangesNoPod(t *testing.T) {
	const multus = `[{"name":"blue","ips":["10.0.0.2/24"],"mac":"0a:58:0a:00:00:02"}]`
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1.MultusAnnotation: multus, v1.AddressesAnnotation: `{"blue":{"address":"10.0.0.2/24","mac":"0a:58:0a:00:00:02"}}`,
	}}}
	Unpublished(pod)
	if got := pod.Annotations[v1.MultusAnnotation]; got != multus {
		t.Errorf("the pod has %s", got)
	}
}
