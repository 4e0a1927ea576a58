package reconcile

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/test/apiserver"
)

// The cache of Networks is ahead of the cache of AddressBlocks: the finalizer must not be
// removed because of the cache alone.
func TestFinalizerStaysWhileABlockIsNotSealed(t *testing.T) {
	w := newWorld(t, newNetwork("blue going"))
	w.add(newBlock("blue", "10.1.0.2 a Bound"))
	calls, err := w.sync(KindNetwork, "blue")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, onlyWrites(calls), "")
}

// A Network is its UID: objects of another Network with its name do not matter to it.
func TestFinalizerGoesDespiteABlockOfAnEarlierNetwork(t *testing.T) {
	w := newWorld(t, another(newNetwork("blue going")))
	w.add(newBlock("blue", "10.1.0.2 a Bound"))
	calls, err := w.sync(KindNetwork, "blue")
	if err != nil {
		t.Error(err)
	}
	same(t, onlyWrites(calls), "patch networks blue uid=uid-of-another rv=101")
}

// Pods without the label hold no address of the new AddressBlock, so it is created at once.
func TestUnlabelledPodsThatDoNotCount(t *testing.T) {
	for _, pod := range []string{
		"b unlabelled gated published=blue:10.1.0.2",
		"b unlabelled phase=Failed published=blue:10.1.0.2",
		"b unlabelled published=blue:10.1.9.2",
		"b unlabelled published=green:10.1.0.2",
	} {
		t.Run(pod, func(t *testing.T) {
			w := newWorld(t, newNetwork("blue"), newPod("a gated on=blue"))
			w.add(newPod(pod))
			if _, err := w.sync(KindNetwork, "blue"); err != nil {
				t.Error(err)
			}
		})
	}
}

// The sync returns every error, not only the last.
func TestAnErrorIsNotLostWhenTheStatusCannotBeWritten(t *testing.T) {
	for _, call := range []string{"create addressblocks", "patch pods/status"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t, crowded()...)
			w.refuse = func(c string) error {
				switch {
				case strings.HasPrefix(c, call):
					return quota
				case strings.HasPrefix(c, "patch networks/status"):
					return errConflict
				}
				return nil
			}
			if _, err := w.sync(KindNetwork, "blue"); !says(err, quota) || !says(err, errConflict) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A user deleted an AddressBlock and removed the label of a live pod. The new
// AddressBlock has the pod's address before any other pod gets one.
func TestNewBlockRecordsWhatUnlabelledPodsPublish(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newPod("a gated on=blue"))
	w.add(newPod("b unlabelled published=blue:10.1.0.2"))
	calls, err := w.sync(KindNetwork, "blue")
	if !errors.Is(err, ErrStale) || onlyWrites(calls) != "" {
		t.Fatalf("error %v, writes:\n%s", err, calls)
	}
	if _, err := w.sync(KindNetwork, "blue"); err != nil {
		t.Fatal(err)
	}
	var entries []string
	for _, e := range stored[*v1.AddressBlock](w, "blue-10.1.0.0").Spec.Entries {
		entries = append(entries, e.Address+" "+e.Pod)
	}
	same(t, strings.Join(entries, ", "), "10.1.0.2 b, 10.1.0.3 a")
}

// One for each sync would mean that the first is forgotten before the last is found.
func TestAllUnlabelledPodsThatPublishAreFoundAtOnce(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newPod("a gated on=blue"))
	w.add(newPod("b unlabelled published=blue:10.1.0.2"), newPod("c unlabelled published=blue:10.1.0.3"))
	w.server.PageSize = 1
	_, _ = w.sync(KindNetwork, "blue")
	if _, err := w.sync(KindNetwork, "blue"); err != nil {
		t.Error(err)
	}
}

// Any user can write an annotation. A pod that is refused its address blocks no other pod.
func TestAForgedAnnotationDoesNotStopANetwork(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newPod("a gated on=blue"))
	w.add(newPod("forged unlabelled published=blue:10.1.0.1")) // the gateway
	_, _ = w.sync(KindNetwork, "blue")
	calls, err := w.sync(KindNetwork, "blue")
	if err != nil || !strings.Contains(calls, "create addressblocks blue-10.1.0.0") {
		t.Errorf("error %v, calls:\n%s", err, calls)
	}
}

// If the API server refuses a write for good (a quota, a policy), the Network reports it,
// once.
func TestARefusedLedgerWriteIsTold(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newPod("a gated on=blue"))
	w.refuse = refusing("create addressblocks", apierrors.NewForbidden(
		schema.GroupResource{Resource: "addressblocks"}, "blue-10.1.0.0", errors.New("exceeded quota")))
	if _, err := w.sync(KindNetwork, "blue"); err == nil {
		t.Fatal("the error is lost: there would be no retry")
	}
	ready := meta.FindStatusCondition(stored[*v1.Network](w, "blue").Status.Conditions, v1.ConditionReady)
	if ready == nil || ready.Reason != network.ReasonFailedWrite || !strings.Contains(ready.Message, "exceeded quota") {
		t.Errorf("Ready is %+v", ready)
	}
	w.catchUp()
	calls, _ := w.sync(KindNetwork, "blue")
	if strings.Contains(calls, "networks/status") || strings.Contains(calls, "event") {
		t.Errorf("reported again:\n%s", calls)
	}
}

// The user of a pod looks at the pod.
func TestARefusedLedgerWriteIsToldToThePod(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newPod("a gated on=blue"))
	w.refuse = refusing("create addressblocks", quota)
	calls, err := w.sync(KindNetwork, "blue")
	if !says(err, quota) {
		t.Fatalf("got %v", err)
	}
	if want := `event on a: Warning NetworkNotReady: Network "blue" cannot serve: exceeded quota`; !strings.Contains(calls, want) {
		t.Errorf("calls:\n%s\nwant in it\n%s", calls, want)
	}
	w.catchUp()
	if calls, _ := w.sync(KindNetwork, "blue"); strings.Contains(calls, "pods/status") {
		t.Errorf("reported again:\n%s", calls)
	}
}

// The Network was deleted while the AddressBlock was created. An entry would hold its
// address for no pod and keep it from a new Network with the same name.
func TestANewBlockOfANetworkThatIsGoneStaysEmpty(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newPod("a gated on=blue"))
	w.answer = func(runtime.Object) {
		networks := apiserver.ResourceNamed("networks")
		if n := w.server.Get(networks, ns, "blue"); n != nil { // it was deleted before
			w.server.Remove(apiserver.User, networks, n)
		}
	}
	if _, err := w.sync(KindNetwork, "blue"); !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	if block := stored[*v1.AddressBlock](w, "blue-10.1.0.0"); len(block.Spec.Entries) > 0 {
		t.Errorf("it has entries: %v", block.Spec.Entries)
	}
}

// The cache does not show yet that the Pod2 was deleted, recreated or changed.
func TestNothingIsCreatedForAPod2ThatIsNotAsItWas(t *testing.T) {
	for _, test := range []struct {
		name string
		now  func(w *world, p *v1.Pod2)
	}{
		{"deleted", func(w *world, p *v1.Pod2) { w.remove(p) }},
		{"recreated", func(w *world, p *v1.Pod2) { w.change(another(p.DeepCopy())) }},
		{"changed", func(w *world, p *v1.Pod2) { w.change(p.DeepCopy()) }},
	} {
		for _, kind := range []string{KindPod2, KindDNS} {
			t.Run(kind+" "+test.name, func(t *testing.T) {
				p := newPod2("web", 2, "blue")
				w := newWorld(t, newNetwork("blue"), p)
				test.now(w, p)
				calls, err := w.sync(kind, "web")
				if !errors.Is(err, ErrStale) {
					t.Errorf("not stale: %v", err)
				}
				same(t, onlyWrites(calls), "")
			})
		}
	}
}

// Our watch does not show an exclusion yet: the excluded address is not handed out. The
// AddressBlock exists, so there is no other reason to read the Network.
func TestNothingIsBoundByAnOldSpec(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"),
		newPod("a published=blue:10.1.0.2"), newPod("b gated on=blue"))
	n := newNetwork("blue")
	n.Spec.Exclude, n.Generation = []v1.AddressRange{"10.1.0.3"}, 2
	w.change(n)
	calls, err := w.sync(KindNetwork, "blue")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, onlyWrites(calls), "")
}

// The Network is read once for all AddressBlocks of a plan, and not at all if none binds.
func TestTheNetworkIsReadOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		pods []string
		want int
	}{
		{"a pod is bound", []string{"a published=blue:10.1.0.2", "b gated on=blue"}, 1},
		{"an address is freed", nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound")}
			for _, pod := range tt.pods {
				objects = append(objects, newPod(pod))
			}
			calls, err := newWorld(t, objects...).sync(KindNetwork, "blue")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(calls, "get networks"); got != tt.want || !strings.Contains(calls, "patch addressblocks") {
				t.Errorf("%d reads in\n%s", got, calls)
			}
		})
	}
}
