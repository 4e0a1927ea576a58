package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// keysFor returns the keys that an event of the object concerns, sorted and each once,
// from the watches of its resource.
func (w *world) keysFor(obj runtime.Object) string {
	var keys []string
	for _, watch := range w.r.Watches() {
		for _, key := range watch.Keys(obj) {
			keys = append(keys, strings.Replace(key.String(), ns+"/", "", 1))
		}
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), ", ")
}

func saysItWaits(pod *corev1.Pod) *corev1.Pod { return saysBound(pod, corev1.ConditionFalse) }

func saysBound(pod *corev1.Pod, bound corev1.ConditionStatus) *corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{{Type: v1.ConditionAddressesBound, Status: bound}}
	return pod
}

func TestWhichKeysAnEventConcerns(t *testing.T) {
	waits := newPod("a gated on=blue,green,red")
	for _, row := range []struct {
		name   string
		cached []runtime.Object
		event  runtime.Object
		want   string
	}{
		{"Network", nil, newNetwork("blue"), "AddressHistory blue, AddressSlice blue, Multus blue, Network blue"},
		{"Network, its waiting pods ask for others too", []runtime.Object{waits, newPod("b gated on=blue,yellow")}, newNetwork("blue"),
			"AddressHistory blue, AddressSlice blue, Multus blue, Network blue, Network green, Network red, Network yellow"},
		{"Network, its running pods ask for others too", []runtime.Object{newPod("a on=blue,green published=blue:10.1.0.2")}, newNetwork("blue"), "AddressHistory blue, AddressSlice blue, Multus blue, Network blue"},
		{"Network, Pod2s ask for it", []runtime.Object{newPod2("web", 1, "blue"), withTemplateRequest(newPod2("db", 1), "blue"), newPod2("other", 1, "green")}, newNetwork("blue"),
			"AddressHistory blue, AddressSlice blue, Multus blue, Network blue, Pod2 db, Pod2 web"},
		{"block", nil, newBlock("blue"), "AddressHistory blue, AddressSlice blue, Network blue"},
		{"block, a pod waits for it and for others", []runtime.Object{waits}, newBlock("green"), "AddressHistory green, AddressSlice green, Network blue, Network green, Network red"},
		{"block that binds a pod which has yet to publish", []runtime.Object{newPod("a gated on=blue")}, newBlock("blue", "10.1.0.2 a Bound"), "AddressHistory blue, AddressSlice blue, Network blue, Pod a"},
		{"block that binds published, other or unknown pods", []runtime.Object{newPod("a on=blue"), newPod("b gated on=blue uid=other")},
			newBlock("blue", "10.1.0.2 a Bound", "10.1.0.3 b Bound", "10.1.0.4 c Bound"), "AddressHistory blue, AddressSlice blue, Network blue"},
		{"block that binds a pod whose condition says that it waits", []runtime.Object{saysItWaits(newPod("a on=blue published=blue:10.1.0.2"))},
			newBlock("blue", "10.1.0.2 a Bound"), "AddressHistory blue, AddressSlice blue, Network blue, Pod a"},
		{"block that keeps an address for a pod", []runtime.Object{newPod("a gated on=blue")}, newBlock("blue", "10.1.0.2 a Reserved Pod2/web"), "AddressHistory blue, AddressSlice blue, Network blue"},
		{"block, Pod2s want addresses of its Network", []runtime.Object{wantsAddresses(newPod2("web", 1, "blue")), wantsAddresses(newPod2("other", 1, "green")), newPod2("any", 1, "blue")},
			newBlock("blue"), "AddressHistory blue, AddressSlice blue, Network blue, Pod2 web"},
		{"block, the Pod2 is complete", []runtime.Object{complete(wantsAddresses(newPod2("web", 1, "blue")))}, newBlock("blue"), "AddressHistory blue, AddressSlice blue, Network blue"},
		{"pod that asks", nil, newPod("a on=blue,green"), "Network blue, Network green, Pod a"},
		{"pod that has all its addresses", nil, newPod("a on=blue published=blue:10.1.0.2"), "AddressSlice blue, Network blue"},
		{"pod that waited, and has them", nil, saysBound(newPod("a on=blue published=blue:10.1.0.2"), corev1.ConditionTrue), "AddressSlice blue, Network blue"},
		{"pod that says that it waits", nil, saysItWaits(newPod("a on=blue published=blue:10.1.0.2")), "AddressSlice blue, Network blue, Pod a"},
		{"pod with another request than before", nil, newPod("a on=blue,green published=blue:10.1.0.2"), "AddressSlice blue, Network blue, Network green, Pod a"},
		{"pod with the gate alone", nil, newPod("a gated"), "Pod a"},
		{"pod with an unreadable request", nil, newPod("a on=,"), "Pod a"},
		{"pod that publishes, without a request", nil, newPod("a published=blue:10.1.0.2"), "AddressSlice blue, Network blue, Pod a"},
		{"pod that only a block names", []runtime.Object{newBlock("blue", "10.1.0.2 a Bound"), newBlock("green", "10.1.0.2 b Bound")}, newPod("a"), "Network blue"},
		{"pod of a Pod2", nil, newPod("web-0 on=blue of=Pod2/web label=web"), "Network blue, Pod web-0, Pod2 web"},
		{"pod without a request, of a Pod2", nil, newPod("web-0 of=Pod2/web label=web"), "Pod2 web"},
		{"pod of one Pod2 with the label of another", nil, newPod("web-0 of=Pod2/web label=db"), "Pod2 db, Pod2 web"},
		{"pod of another owner with a Pod2's label", nil, newPod("web-0 of=ReplicaSet/rs label=web"), "Pod2 web"},
		{"pod of another owner", nil, newPod("rs-x of=ReplicaSet/rs"), ""},
		{"pod of another owner with the name of a replica", nil, newPod("a-web-0 of=StatefulSet/a-web"), "Pod2 a-web"},
		{"pod with a name that no replica has", nil, newPod("web-00"), ""},
		{"Pod2", nil, newPod2("web", 1, "blue", "green"), "DNS web, Network blue, Network green, Pod2 web"},
		{"Pod2 whose template asks", nil, withTemplateRequest(newPod2("web", 1), "blue"), "DNS web, Network blue, Pod2 web"},
		{"StatefulSet", nil, newStatefulSet("db", "blue, green", 0, 1), "Network blue, Network green"},
		{"Pod2, another one wants addresses of its Network", []runtime.Object{wantsAddresses(newPod2("web", 1, "blue"))}, newPod2("db", 1, "blue", "green"), "DNS db, Network blue, Network green, Pod2 db, Pod2 web"},
		{"StatefulSet, a Pod2 wants addresses of its Network", []runtime.Object{wantsAddresses(newPod2("web", 1, "blue"))}, newStatefulSet("db", "blue", 0, 1), "Network blue, Pod2 web"},
		{"VNI", nil, &v1.VNI{Spec: v1.VNISpec{Network: v1.NetworkReference{Namespace: ns, Name: "blue"}}}, "Multus blue"},
		{"definition of any owner", nil, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metaOf("blue")}, "Multus blue"},
		{"AddressSlice of a Network", nil, &v1.AddressSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "blue-0", Labels: map[string]string{v1.NetworkLabel: "blue"}}}, "AddressSlice blue"},
		{"AddressSlice with the label of another Network", nil, &v1.AddressSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "blue-0", Labels: map[string]string{v1.NetworkLabel: "red"},
			OwnerReferences: newBlock("blue").OwnerReferences}}, "AddressSlice blue, AddressSlice red"},
		{"AddressSlice of nodes", nil, &v1.AddressSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "nodes.0"}}, "AddressSlice kube-system/"},
		{"Node, a pod is on it", []runtime.Object{newPod("a published=blue:10.1.0.2 node=n1"), newPod("b published=green:10.1.0.2 node=n2")}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
			"AddressSlice blue, AddressSlice kube-system/"},
		{"StatefulSet that asks for nothing", nil, newStatefulSet("db", "", 0, 1), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			same(t, newWorld(t, deepCopy(row.cached)...).keysFor(row.event), row.want)
		})
	}
}

// The owner's kind alone proves nothing: another API group may also have a Pod2.
func TestAPod2OfAnotherGroupIsNotOurs(t *testing.T) {
	pod := newPod("x of=Pod2/web")
	pod.OwnerReferences[0].APIVersion = "example.com/v1"
	same(t, newWorld(t).keysFor(pod), "")
}

// An informer may pass on any type of object.
func TestObjectsOfOtherTypesConcernNobody(t *testing.T) {
	w := newWorld(t)
	for _, watch := range w.r.Watches() {
		if keys := watch.Keys(&v1.NetworkList{}); len(keys) > 0 {
			t.Errorf("got %v", keys)
		}
	}
}

func TestIndexesOfObjectsOfOtherTypesAreEmpty(t *testing.T) {
	for _, row := range newWorld(t).r.rows {
		for name, index := range row.indexers {
			if values, err := index(&v1.NetworkList{}); len(values) > 0 || err != nil {
				t.Errorf("%s by %s: got %v, %v", row.resource, name, values, err)
			}
		}
	}
}

func TestIndexesAreAddedOnce(t *testing.T) {
	w := newWorld(t)
	_, err := New(w.clients, w.informers, w.r.recorder, w.clock, Settings{})
	if err == nil {
		t.Error("a second Reconciler on the same informers was not refused")
	}
}

// Progress of live pods is handled a few times a second, and less often if many replicas
// progress. Updates that need an immediate answer do not wait.
func TestWhichEventsOfPodsMayWait(t *testing.T) {
	awaits := func(name string, replicas, available int32) *v1.Pod2 {
		p := newPod2(name, replicas)
		p.Status.Replicas, p.Status.AvailableReplicas = replicas, available
		return p
	}
	w := newWorld(t, awaits("few", 10, 0), awaits("many", 2000, 0), awaits("rolling", 2000, 1999), awaits("large", 10_000, 9_999), awaits("huge", 100_000, 0))
	for _, row := range []struct {
		old, new string
		want     time.Duration
	}{
		{"a published=blue:10.1.0.2", "a published=blue:10.1.0.2 phase=Running", podProgress},
		{"a gated on=blue", "a on=blue published=blue:10.1.0.2", podProgress},
		{"a gated on=blue", "a gated on=blue,green", 0},
		{"a", "a going", podProgress}, // the sync has work to do once the pod is gone
		{"a", "a phase=Failed", 0},
		{"a phase=Running", "a phase=Succeeded", 0},
		{"a", "a uid=other", 0}, // deleted and recreated while the watch was away
		{"few-0 of=Pod2/few", "few-0 of=Pod2/few phase=Running", podProgress},
		{"many-0 of=Pod2/many", "many-0 of=Pod2/many phase=Running", 100 * time.Millisecond},
		{"many-0 of=Pod2/many", "many-0 of=Pod2/many phase=Failed", 0},
		{"rolling-0 of=Pod2/rolling", "rolling-0 of=Pod2/rolling phase=Running", podProgress},
		{"large-0 of=Pod2/large", "large-0 of=Pod2/large phase=Running", 200 * time.Millisecond},
		{"huge-0 of=Pod2/huge", "huge-0 of=Pod2/huge phase=Running", time.Second},
		{"gone-0 of=Pod2/gone", "gone-0 of=Pod2/gone phase=Running", podProgress},
	} {
		if got := w.r.podPatience(newPod(row.old), newPod(row.new)); got != row.want {
			t.Errorf("from %q to %q: %s, want %s", row.old, row.new, got, row.want)
		}
	}
}
