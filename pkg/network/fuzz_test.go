package network

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

const served = `
	network blue 10.0.0.0/29
	owner Pod2/web 3 blue
	10.0.0.2 Bound web-0/u0 Pod2/web 90s
	10.0.0.3 Bound web-1/u1 Pod2/web 90s
	10.0.0.4 Reserved web-2 Pod2/web 90s
	pod web-0/u0 asks=blue has=blue:10.0.0.2/29 of=Pod2/web
	pod web-1/u1 asks=blue has=blue:10.0.0.3/29 of=Pod2/web
	pod web-2/u2 asks=blue gated of=Pod2/web
`

// The function checks the properties of every state.
func whatever(t *testing.T, s State) {
	t.Helper()
	p := Diff(s)
	doneIfEmpty(t, s, p)
	for _, problems := range [][]string{noLiveEntryLeaves(s, p), handedOutRightly(s, p), blocksAreRespected(s, p)} {
		for _, problem := range problems {
			t.Errorf("%s\n%s", problem, p)
		}
	}
	if s.Network.DeletionTimestamp == nil && len(p.Blocks) == 0 && p.Status == nil && s.Network.Status.Conditions == nil {
		t.Error("the plan of a new Network has no status")
	}
}

// Somebody writes an entry into an AddressBlock, before or after the existing entries or
// over one of them. Live pods keep their addresses.
func FuzzCorruptEntry(f *testing.F) {
	for _, e := range [][5]string{
		{"10.0.0.2", "web-1", "u1", "Pod2", "Bound"}, {"10.0.0.5", "web-2", "u2", "Pod2", "Bound"}, {"::", "", "", "", ""},
		{"10.0.0.2", "web-0", "u0", "Pod2", "Resting"}, {"10.0.0.3", "web-9", "u1", "StatefulSet", "Reserved"}, {"nonsense", "web-0", "u9", "x", "Free"},
	} {
		for at := range byte(6) {
			f.Add(at, e[0], e[1], e[2], e[3], "web", e[4], int64(90))
		}
	}
	f.Fuzz(func(t *testing.T, at byte, address, pod, uid, kind, owner, state string, ago int64) {
		s := parse(t, served)
		entries := &s.Blocks[0].Spec.Entries
		e := v1.AddressEntry{
			Address: address, Pod: pod, PodUID: types.UID(uid), Owner: v1.AddressOwner{Kind: kind, Name: owner},
			State: v1.AddressState(state), Since: metav1.NewTime(now.Add(-time.Duration(ago) * time.Second)),
		}
		switch n := int(at) % 5; n {
		case 3:
			*entries = append([]v1.AddressEntry{e}, *entries...)
		case 4:
			*entries = append(*entries, e)
		default:
			(*entries)[n] = e
		}
		whatever(t, s)
	})
}

// Somebody writes into the annotations of a served pod and of a waiting pod. Diff does not
// panic, and gives away no address that a pod holds.
func FuzzCorruptAnnotations(f *testing.F) {
	for _, request := range []string{"", "blue", "blue=10.0.0.3", "green", "blue,,", "blue,green"} {
		for _, addresses := range []string{"", "{", `{"blue":{"address":"10.0.0.3/29"}}`, `{"green":{"address":"10.0.0.2/29"}}`, `{"blue":{}}`, `{"blue":null}`} {
			f.Add(request, addresses, `[{"name":"blue","ips":["10.0.0.2/29"]}]`, byte(len(request)))
		}
	}
	f.Fuzz(func(t *testing.T, request, addresses, multus string, which byte) {
		s := parse(t, served)
		pod := s.Pods[int(which)%len(s.Pods)]
		pod.Annotations = map[string]string{v1.NetworksAnnotation: request, v1.AddressesAnnotation: addresses, v1.MultusAnnotation: multus}
		if which&128 != 0 {
			pod.Annotations[v1.AddressesAnnotation] = ""
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}
		}
		// A State has all Networks that a pod asks for. These do not exist.
		networks := []Neighbour{{s.Name, s.Network, s.Blocks}}
		requests, _ := attachment.Requests(pod)
		for _, r := range requests {
			if r.Network != s.Name {
				s.Neighbours = append(s.Neighbours, Neighbour{Name: r.Network})
			}
		}
		networks = append(networks, s.Neighbours...)
		for _, list := range [][]Neighbour{s.Neighbours, networks} {
			slices.SortFunc(list, func(a, b Neighbour) int { return strings.Compare(a.Name, b.Name) })
		}
		whatever(t, s)
		publication := Publish(PodState{Now: now, Pod: pod, Networks: networks})
		if publication.Publish == nil {
			return
		}
		published, err := attachment.ParseAddresses(publication.Publish.Addresses)
		if err != nil {
			t.Fatalf("publishes an unreadable value: %v\n%s", err, publication)
		}
		for network, a := range published {
			if h := boundIn(s.Blocks[0])[a.Address.Addr()]; network != "blue" || h.uid != pod.UID {
				t.Errorf("publishes %s of %s, which pod %s (%s) holds", a.Address, network, h.pod, h.uid)
			}
		}
	})
}
