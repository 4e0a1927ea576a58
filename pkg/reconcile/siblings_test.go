package reconcile

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestPodsThatShareMemoryStayTheSame(t *testing.T) {
	siblings := newSiblings()
	for range 2 { // each pod comes after each other one, and after itself
		for _, pod := range fatPods() {
			want, _ := SlimPod(pod.DeepCopy())
			got, err := siblings.slim(pod.DeepCopy())
			if err != nil || !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("%s is %+v, want %+v", pod.Name, got, want)
			}
		}
	}
}

func TestEndpointsThatShareMemoryStayTheSame(t *testing.T) {
	endpoint := func(address, node string, ready bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "web" + address},
		}
	}
	slice := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{endpoint("10.1.0.2", "a", true), endpoint("10.1.0.3", "a", true), endpoint("10.1.0.4", "b", false), {}}}
	slice.Endpoints = slices.Grow(slice.Endpoints, 100)
	want := slice.DeepCopy()
	got, err := newSiblings().endpoints(slice)
	if err != nil || !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if a, b := slice.Endpoints[0], slice.Endpoints[1]; a.Conditions.Ready != b.Conditions.Ready || a.NodeName != b.NodeName {
		t.Error("two Ready endpoints on a node have a condition or a name of the node each")
	}
	if free := cap(slice.Endpoints) - len(slice.Endpoints); free > 0 {
		t.Errorf("the array has room for %d more endpoints", free)
	}
}

func TestEntriesThatShareMemoryStayTheSame(t *testing.T) {
	block := &v1.AddressBlock{}
	for _, owner := range []string{"web", "web", "db", "web"} {
		block.Spec.Entries = append(block.Spec.Entries, v1.AddressEntry{State: v1.AddressState(strings.Clone("Bound")), Owner: v1.AddressOwner{Kind: "Pod2", Name: strings.Clone(owner)}})
	}
	block.Spec.Entries[3].State = v1.AddressResting
	want := block.DeepCopy()
	got, err := newSiblings().entries(block)
	if err != nil || !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if entries := block.Spec.Entries; unsafe.StringData(entries[0].Owner.Name) != unsafe.StringData(entries[1].Owner.Name) ||
		unsafe.StringData(string(entries[1].State)) != unsafe.StringData(string(entries[2].State)) {
		t.Error("two equal texts are in memory twice")
	}
}

// Pods that became Ready in the same second share their conditions, whichever pod came in between.
// client-go may transform an object twice.
func TestEqualPartsAreSharedAlsoAfterASecondTransform(t *testing.T) {
	siblings := newSiblings()
	slim := func(name string, ready int) *corev1.Pod {
		pod := fatPods()[1]
		pod.Name, pod.UID = name, types.UID(name)
		pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}
		for i := range pod.Status.Conditions {
			pod.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now.Add(time.Duration(ready) * time.Second))
		}
		once, _ := siblings.slim(pod)
		before := once.(*corev1.Pod).DeepCopy()
		twice, err := siblings.slim(once)
		if err != nil || !equality.Semantic.DeepEqual(twice, before) || !equality.Semantic.DeepEqual(once, before) {
			t.Errorf("the transform of %+v is %+v, %v", before, twice, err)
		}
		return twice.(*corev1.Pod)
	}
	a, b, c := slim("web-1", 0), slim("web-2", 1), slim("web-3", 0)
	if &a.Status.Conditions[0] != &c.Status.Conditions[0] || a.Status.ContainerStatuses[0].State.Running != c.Status.ContainerStatuses[0].State.Running {
		t.Error("two pods with equal conditions and states have their own")
	}
	if &a.Status.Conditions[0] == &b.Status.Conditions[0] {
		t.Error("a pod has the conditions of another second")
	}
}

// BenchmarkSlimPod measures the heap of the pods in the cache, with and without siblings.
func BenchmarkSlimPod(b *testing.B) {
	for _, bm := range []struct {
		name string
		slim func(any) (any, error)
	}{{"alone", SlimPod}, {"sibling", newSiblings().slim}} {
		b.Run(bm.name, func(b *testing.B) {
			var pods []any
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				pod := fatPods()[1]
				pod.Name = "web-" + strconv.Itoa(len(pods))
				pod.Labels[v1.PodIndexLabel], pod.Annotations[v1.AddressesAnnotation] = strconv.Itoa(len(pods)), fmt.Sprintf(`{"blue":{"address":"10.1.%d.%d/16"}}`, len(pods)/256, len(pods)%256)
				pod.UID = types.UID("7b3d2c1a-0000-4000-8000-" + strconv.Itoa(100_000_000_000+len(pods)))
				raw, err := pod.Marshal()
				if err != nil {
					b.Fatal(err)
				}
				decoded := &corev1.Pod{}
				if err := decoded.Unmarshal(raw); err != nil {
					b.Fatal(err)
				}
				slim, err := bm.slim(decoded)
				if err != nil {
					b.Fatal(err)
				}
				pods = append(pods, slim)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(len(pods)), "B/pod")
			runtime.KeepAlive(pods)
		})
	}
}
