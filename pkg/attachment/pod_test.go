package attachment

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func annotated(key, value string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
}

func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"asks", annotated(v1.NetworksAnnotation, "green, blue"), "{blue, any}{green, any} <nil>"},
		{"asks for nothing", annotated("other", "blue"), " <nil>"},
		{"no annotations", &corev1.Pod{}, " <nil>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requests, err := Requests(tt.pod)
			if r := render(requests) + " " + errText(err); r != tt.want {
				t.Errorf("got %q, want %q", r, tt.want)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return "<nil>"
	}
	return err.Error()
}

func TestRequestsThatDoNotParseNameTheAnnotation(t *testing.T) {
	_, err := Requests(annotated(v1.NetworksAnnotation, "a,"))
	if got, want := errText(err), `annotation samplecrd.k8s.io/networks: element 2 ("") is empty: remove the comma, or write the name of a Network`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Absent and empty differ: an empty annotation is a mistake that the user must see.
func TestRequestsOfAnEmptyAnnotation(t *testing.T) {
	if requests, err := Requests(annotated(v1.NetworksAnnotation, "")); err == nil {
		t.Errorf("no error, and %d requests", len(requests))
	}
}

func TestPublished(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"told", annotated(v1.AddressesAnnotation, `{"blue":{"address":"10.0.0.2/24","mac":"m"}}`), `{"blue":{"address":"10.0.0.2/24","mac":"m"}}`},
		{"not published", &corev1.Pod{}, "{}"},
		{"damaged", annotated(v1.AddressesAnnotation, `{"blue":{"address":"10.0.0.2/24"},"green":{}}`), "{}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := FormatAddresses(Published(tt.pod)); r != tt.want {
				t.Errorf("got %s, want %s", r, tt.want)
			}
		})
	}
}

func TestGated(t *testing.T) {
	for _, tt := range []struct {
		name  string
		gates []corev1.PodSchedulingGate
		want  bool
	}{
		{"ours among others", []corev1.PodSchedulingGate{{Name: "other"}, {Name: v1.AddressesGate}}, true},
		{"another's", []corev1.PodSchedulingGate{{Name: "other"}}, false},
		{"none", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Gated(&corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: tt.gates}}); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestOver(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{
		corev1.PodPending: false, corev1.PodRunning: false, corev1.PodUnknown: false, "": false,
		corev1.PodSucceeded: true, corev1.PodFailed: true,
	} {
		if got := Over(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}}); got != want {
			t.Errorf("phase %q: got %v", phase, got)
		}
	}
}

// A container may still run, and then the address is in use.
func TestATerminatingPodIsNotOver(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	pod.DeletionTimestamp = ptr.To(metav1.Now())
	if Over(pod) {
		t.Error("it counts as terminated")
	}
}

func TestOwner(t *testing.T) {
	notController := metav1.OwnerReference{Kind: "Node", Name: "n"}
	for _, tt := range []struct {
		name string
		refs []metav1.OwnerReference
		want v1.AddressOwner
	}{
		{"the controller among owners", []metav1.OwnerReference{notController, {Kind: "Pod2", Name: "web", Controller: ptr.To(true)}}, v1.AddressOwner{Kind: "Pod2", Name: "web"}},
		{"an owner that is not a controller", []metav1.OwnerReference{notController}, v1.AddressOwner{}},
		{"a bare pod", nil, v1.AddressOwner{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Owner(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tt.refs}}); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// With an owner that is too long for an AddressBlock, the API server would refuse the
// block, with the addresses of other pods in it.
func TestOwnerThatDoesNotFitTheLedger(t *testing.T) {
	for _, c := range []struct {
		kind, name string
		want       v1.AddressOwner
	}{
		{strings.Repeat("K", 63), strings.Repeat("n", 253), v1.AddressOwner{Kind: strings.Repeat("K", 63), Name: strings.Repeat("n", 253)}},
		{strings.Repeat("K", 64), "n", v1.AddressOwner{}},
		{"Kind", strings.Repeat("n", 254), v1.AddressOwner{}},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{Kind: c.kind, Name: c.name, UID: "u", Controller: ptr.To(true)},
		}}}
		if got := Owner(pod); got != c.want {
			t.Errorf("Owner of a pod of %d and %d letters is %v, want %v", len(c.kind), len(c.name), got, c.want)
		}
	}
}

// The requests of one pod cause work for every Network that it names.
func TestTooManyNetworks(t *testing.T) {
	names := make([]string, MaxNetworks+1)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	if _, err := ParseRequests(strings.Join(names[1:], ",")); err != nil {
		t.Errorf("%d Networks: %v", MaxNetworks, err)
	}
	if _, err := ParseRequests(strings.Join(names, ",")); err == nil {
		t.Errorf("%d Networks are accepted", len(names))
	}
}
