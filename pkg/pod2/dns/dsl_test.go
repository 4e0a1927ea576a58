package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

const uid = types.UID("u-web")

// state parses the Pod2 from words such as
//
//	name=web networks=blue,green template=blue replicas=0 generation=2 going said gone
//
// The word said sets the condition as it would be written, and gone removes the Pod2.
// Each other object is one line:
//
//	web-0 blue=10.0.0.2 green=fd00::2 node=n1     owned, ready, publishes
//	web-1 notready terminating gated over         also orphan, bare, of=Kind/name, earlier, uid=other
//	service web-blue                              as the controller makes it, of the Network after the first '-'
//	service web-blue orphan                       without a controller; also of=Kind/name, earlier, going
//	service web-blue bare                         without an owner and the controller's labels
//	service web-blue selector quiet unlabelled ports vip     changed by someone
//	slice web-blue-0 web-0=10.0.0.2 web-1=10.0.0.3           as the controller makes it of ready replicas
//	slice web-blue-0 web-0=10.0.0.2 bare                     also orphan, of=Kind/name, earlier, going, ports, unlabelled
func state(t testing.TB, spec string, objects ...string) State {
	t.Helper()
	s := State{Now: now, Pod2: &v1.Pod2{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid, Generation: 1}}}
	said, gone := false, false
	for word := range strings.FieldsSeq(spec) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "name":
			s.Pod2.Name = value
		case "networks":
			for name := range strings.SplitSeq(value, ",") {
				s.Pod2.Spec.Networks = append(s.Pod2.Spec.Networks, v1.Pod2Network{Name: name})
			}
		case "template":
			s.Pod2.Spec.Template.Annotations = map[string]string{v1.NetworksAnnotation: value}
		case "replicas":
			s.Pod2.Spec.Replicas = new(int32)
			if _, err := fmt.Sscan(value, s.Pod2.Spec.Replicas); err != nil {
				t.Fatalf("replicas: %v", err)
			}
		case "generation":
			s.Pod2.Generation = 2
		case "going":
			s.Pod2.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "said":
			said = true
		case "gone":
			gone = true
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	for _, line := range objects {
		words := strings.Fields(line)
		switch words[0] {
		case "service":
			s.Services = append(s.Services, newService(t, s.Pod2, words[1:]))
		case "slice":
			s.Slices = append(s.Slices, newSlice(t, s.Pod2, words[1:]))
		default:
			s.Pods = append(s.Pods, newPod(t, s.Pod2, words))
		}
	}
	slices.SortFunc(s.Pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	if status := look(s).status(); said && status != nil {
		s.Pod2.Status = *status
	}
	if gone {
		s.Pod2, s.Services = nil, nil
	}
	return s
}

// owned parses the words for the owner of an object and its deletion, and returns the
// others.
func owned(p *v1.Pod2, o metav1.Object, words []string) (others []string) {
	owner := *metav1.NewControllerRef(p, pod2Kind)
	refs := []metav1.OwnerReference{owner}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "going", "terminating":
			o.SetDeletionTimestamp(ptr.To(metav1.NewTime(now)))
		case "orphan":
			refs = nil
		case "bare":
			refs = nil
			o.SetLabels(nil)
		case "earlier":
			owner.UID = "u-earlier"
			refs = []metav1.OwnerReference{owner}
		case "of":
			owner.UID = "u-other"
			owner.Kind, owner.Name, _ = strings.Cut(value, "/")
			refs = []metav1.OwnerReference{owner}
		default:
			others = append(others, word)
		}
	}
	o.SetNamespace(p.Namespace)
	o.SetOwnerReferences(refs)
	o.SetResourceVersion("7")
	return others
}

func newPod(t testing.TB, p *v1.Pod2, words []string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: words[0], UID: types.UID("u-" + words[0]),
		Labels: map[string]string{v1.Pod2Label: p.Name}, Annotations: map[string]string{}}}
	serves := corev1.ConditionTrue
	published := map[string]attachment.Address{}
	for _, word := range owned(p, pod, words[1:]) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "notready":
			serves = corev1.ConditionFalse
		case "gated":
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}
		case "over":
			pod.Status.Phase = corev1.PodFailed
		case "node":
			pod.Spec.NodeName = value
		case "uid":
			pod.UID = types.UID(value)
		default:
			address, err := netip.ParseAddr(value)
			if err != nil {
				t.Fatalf("unknown word: %s", word)
			}
			published[key] = attachment.Address{Address: netip.PrefixFrom(address, address.BitLen())}
		}
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: serves}}
	if len(published) > 0 {
		pod.Annotations[v1.AddressesAnnotation] = attachment.FormatAddresses(published)
	}
	return pod
}

// newService returns the Service that the API server would hold, with its defaults.
func newService(t testing.TB, p *v1.Pod2, words []string) *corev1.Service {
	t.Helper()
	_, network, _ := strings.Cut(words[0], "-")
	v := &view{State: State{Pod2: p}}
	s := v.newService(service{name: words[0], network: network})
	s.UID, s.Spec.SessionAffinity = types.UID("u-"+words[0]), corev1.ServiceAffinityNone
	for _, word := range owned(p, s, words[1:]) {
		switch word {
		case "selector":
			s.Spec.Selector = map[string]string{"app": "web"}
		case "quiet":
			s.Spec.PublishNotReadyAddresses = false
		case "unlabelled":
			s.Labels = map[string]string{"team": "net"}
		case "ports":
			s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
		case "vip":
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.9", []string{"10.96.0.9"}
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	return s
}

func newSlice(t testing.TB, p *v1.Pod2, words []string) *discoveryv1.EndpointSlice {
	t.Helper()
	v := &view{State: State{Pod2: p}}
	name := strings.TrimSuffix(words[0], "-v6")
	of := service{name: name[:strings.LastIndex(name, "-")]}
	_, of.network, _ = strings.Cut(of.name, "-")
	address := netip.IPv4Unspecified()
	if name != words[0] {
		address = netip.IPv6Unspecified()
	}
	s := v.newSlice(of, words[0], address)
	s.UID = types.UID("u-" + words[0])
	for _, word := range owned(p, s, words[1:]) {
		switch word {
		case "ports":
			s.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("http")}}
		case "unlabelled":
			s.Labels = map[string]string{"team": "net"}
		case "fqdn":
			s.AddressType = discoveryv1.AddressTypeFQDN
		default:
			pod, address, _ := strings.Cut(word, "=")
			s.Endpoints = append(s.Endpoints, endpoint(newPod(t, p, []string{pod}), netip.MustParseAddr(address)))
		}
	}
	return s
}

type diffTest struct {
	name    string
	spec    string
	objects []string
	want    string
}

func runDiff(t *testing.T, tests []diffTest, render func(State) string) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := render(state(t, tt.spec, tt.objects...)), strings.TrimSpace(strings.ReplaceAll(tt.want, "\n\t\t\t", "\n")); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// lines renders the parts of a plan that begin with one of the words.
func lines(s State, words ...string) string {
	var kept strings.Builder
	for line := range strings.Lines(Diff(s).String()) {
		for _, w := range words {
			if strings.HasPrefix(line, w) {
				kept.WriteString(line)
			}
		}
	}
	return strings.TrimSuffix(kept.String(), "\n")
}
