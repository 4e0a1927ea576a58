package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

// replica is a pod of the Pod2 web that matches its template.
func replica(text string) runtime.Object {
	pod := newPod(text + " of=Pod2/web label=web")
	pod.Labels[v1.PodTemplateHashLabel] = pod2.RevisionHash(newPod2("web", 1))
	return pod
}

// unindexed is a replica that lost the label with its ordinal.
func unindexed(name string) runtime.Object {
	pod := replica(name).(*corev1.Pod)
	delete(pod.Labels, v1.PodIndexLabel)
	return pod
}

// orphan is a replica whose owner reference was removed.
func orphan(name string) *corev1.Pod {
	pod := newPod(name + " label=web")
	pod.Labels[v1.PodTemplateHashLabel] = pod2.RevisionHash(newPod2("web", 1))
	return pod
}

// sealed is an empty AddressBlock of the Network blue that takes no more entries.
func sealed(finalizers ...string) runtime.Object {
	block := newBlock("blue")
	block.Spec.Sealed, block.Finalizers = true, finalizers
	return block
}

var podA = Key{KindPod, ns, "a"}

// S7: every write carries the precondition that its plan asks for: a fixed name, a
// resourceVersion, a UID, or both.
func TestEveryWriteCarriesItsPrecondition(t *testing.T) {
	for _, row := range []struct {
		name    string
		objects []runtime.Object // 101, 102 and so on
		key     Key
		want    string
	}{
		{"finalizer added, status", []runtime.Object{newNetwork("blue unprotected")}, blue, `
patch networks blue uid=uid-of-blue rv=101
patch networks/status blue uid=uid-of-blue rv=102`},
		{"finalizer removed, on a live read", []runtime.Object{newNetwork("blue going"), sealed(v1.InUseFinalizer)}, blue, `
list addressblocks
patch networks blue uid=uid-of-blue rv=101`},
		{"block created, on a live read", []runtime.Object{newNetwork("blue"), newPod("a gated on=blue")}, blue, `
get networks blue
list pods limit=500 selector=samplecrd.k8s.io/managed!=true
create addressblocks blue-10.1.0.0
get networks blue
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=103
patch networks/status blue uid=uid-of-blue rv=101`},
		{"first entry of a block found empty, on a live read", []runtime.Object{newNetwork("blue"), newBlock("blue"), newPod("a gated on=blue")}, blue, `
get networks blue
list pods limit=500 selector=samplecrd.k8s.io/managed!=true
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=102
patch networks/status blue uid=uid-of-blue rv=101`},
		{"block changed, on a live read", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound")}, blue, `
get pods a -> NotFound
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=102
patch networks/status blue uid=uid-of-blue rv=101`},
		{"block deleted", []runtime.Object{sealed()}, blue, `
delete addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=101`},
		{"condition of a pod that waits", []runtime.Object{newPod("a gated on=blue")}, blue, `
patch pods/status a uid=uid-of-a`},
		{"addresses published", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue")}, podA, `
patch pods a uid=uid-of-a rv=103`},
		{"condition of a pod with a bad request", []runtime.Object{newPod("a gated on=Not_A_Name")}, podA, `
patch pods/status a uid=uid-of-a`},
		{"failure recorded, pod deleted, pods created", []runtime.Object{newPod2("web", 2), replica("web-0 phase=Failed")}, web, `
get pod2s web
patch pod2s web uid=uid-of-web rv=101
delete pods web-0 uid=uid-of-web-0 rv=102
create pods web-1
patch pod2s/status web uid=uid-of-web rv=103`},
		{"labels of a pod", []runtime.Object{newPod2("web", 1), unindexed("web-0")}, web, `
patch pods web-0 uid=uid-of-web-0 rv=102
patch pod2s/status web uid=uid-of-web rv=101`},
		{"pod adopted, without other decisions", []runtime.Object{newPod2("web", 2), orphan("web-0")}, web, `
get pod2s web
patch pods web-0 uid=uid-of-web-0 rv=102`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			calls, err := w.sync(row.key.Kind, row.key.Name)
			if err != nil {
				t.Fatal(err)
			}
			same(t, withoutEvents(calls), row.want)
		})
	}
}

// The caches are out of date: the server refuses the write, and the sync makes no write
// after it.
func TestAWriteFromAnOldViewIsRefused(t *testing.T) {
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		key     Key
		changed runtime.Object // nil: the first of objects is gone
		want    string
	}{
		{"finalizer", []runtime.Object{newNetwork("blue unprotected")}, blue, newNetwork("blue unprotected"), `
patch networks blue uid=uid-of-blue rv=101 -> Conflict`},
		{"finalizer of a Network that is gone", []runtime.Object{newNetwork("blue unprotected")}, blue, nil, `
patch networks blue uid=uid-of-blue rv=101 -> NotFound`},
		{"finalizer to be removed", []runtime.Object{newNetwork("blue going")}, blue, newNetwork("blue going"), `
list addressblocks
patch networks blue uid=uid-of-blue rv=101 -> Conflict`},
		{"status of a Network", []runtime.Object{newNetwork("blue")}, blue, newNetwork("blue"), `
patch networks/status blue uid=uid-of-blue rv=101 -> Conflict`},
		{"block", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Resting")}, blue, newBlock("blue", "10.1.0.2 b Bound"), `
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=102 -> Conflict`},
		{"deleted block", []runtime.Object{sealed()}, blue, sealed(), `
delete addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=101 -> Conflict`},
		{"new block, Network is gone", []runtime.Object{newNetwork("blue"), newPod("a gated on=blue")}, blue, nil, `
get networks blue -> NotFound`},
		{"new block, Network is another", []runtime.Object{newNetwork("blue"), newPod("a gated on=blue")}, blue, another(newNetwork("blue")), `
get networks blue`},
		{"new block, Network is terminating", []runtime.Object{newNetwork("blue"), newPod("a gated on=blue")}, blue, newNetwork("blue going"), `
get networks blue`},
		{"new block, Network is not protected", []runtime.Object{newNetwork("blue"), newPod("a gated on=blue")}, blue, newNetwork("blue unprotected"), `
get networks blue`},
		{"condition", []runtime.Object{newPod("a gated on=blue")}, blue, newPod("a gated on=blue uid=other"), `
patch pods/status a uid=uid-of-a -> Invalid`},
		{"addresses of a pod that changed", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue")}, podA,
			newPod("a gated on=blue"), `
patch pods a uid=uid-of-a rv=103 -> Conflict`},
		{"addresses of another pod", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue")}, podA,
			newPod("a gated on=blue uid=other"), `
patch pods a uid=uid-of-a rv=103 -> Conflict`},
		{"failures of another Pod2", []runtime.Object{newPod2("web", 1), replica("web-0 phase=Failed")}, web, another(newPod2("web", 1)), `
patch pod2s web uid=uid-of-web rv=101 -> Conflict`},
		{"labels of a pod that changed: the sync reads it", []runtime.Object{newPod2("web", 1), unindexed("web-0")}, web, newPod("web-0 unlabelled"), `
patch pods web-0 uid=uid-of-web-0 rv=102 -> Conflict
get pods web-0`},
		{"labels of another pod", []runtime.Object{newPod2("web", 1), unindexed("web-0")}, web, newPod("web-0 uid=other"), `
patch pods web-0 uid=uid-of-web-0 rv=102 -> Conflict
get pods web-0`},
		{"deleted pod is another", []runtime.Object{newPod2("web", 0), replica("web-0")}, web, newPod("web-0 uid=other"), `
delete pods web-0 uid=uid-of-web-0 rv=102 -> Conflict
get pods web-0`},
		{"deleted pod has no owner now", []runtime.Object{newPod2("web", 0), replica("web-0")}, web, orphan("web-0"), `
delete pods web-0 uid=uid-of-web-0 rv=102 -> Conflict
get pods web-0`},
		{"adopted pod changed, or has a controller now", []runtime.Object{newPod2("web", 1), orphan("web-0")}, web, newPod("web-0 of=StatefulSet/web"), `
get pod2s web
patch pods web-0 uid=uid-of-web-0 rv=102 -> Conflict`},
		{"adopted pod is another", []runtime.Object{newPod2("web", 1), orphan("web-0")}, web, newPod("web-0 uid=other"), `
get pod2s web
patch pods web-0 uid=uid-of-web-0 rv=102 -> Conflict`},
		{"status of a Pod2", []runtime.Object{newPod2("web", 0)}, web, newPod2("web", 0), `
patch pod2s/status web uid=uid-of-web rv=101 -> Conflict`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			if row.changed == nil {
				w.remove(row.objects[0])
			} else {
				w.change(row.changed)
			}
			calls, err := w.sync(row.key.Kind, row.key.Name)
			if !errors.Is(err, ErrStale) {
				t.Errorf("not stale: %v", err)
			}
			same(t, calls, row.want)
		})
	}
}

// A deletion succeeds if the pod is already gone.
func TestDeletingAPodThatIsGoneIsNoError(t *testing.T) {
	pod := replica("web-0")
	w := newWorld(t, newPod2("web", 0), pod)
	w.remove(pod)
	if _, err := w.sync(KindPod2, "web"); err != nil {
		t.Error(err)
	}
}

// Starting pods change all the time: a sync for each pod would take minutes.
func TestAPodThatChangedHoldsUpNoOtherDeletion(t *testing.T) {
	objects := []runtime.Object{newPod2("web", 0)}
	for i := range 40 {
		objects = append(objects, replica(fmt.Sprintf("web-%d", i)))
	}
	w := newWorld(t, objects...)
	w.change(replica("web-39")) // the first to be deleted
	calls, err := w.sync(KindPod2, "web")
	if n := strings.Count(calls, "delete pods"); n != 40 || strings.Count(calls, "Conflict") != 1 || !errors.Is(err, ErrStale) {
		t.Errorf("%d deletions, error %v, calls:\n%s", n, err, calls)
	}
}

// No watch reports changes of such a pod.
func TestAPodWithoutALabelThatChangedIsDeletedAsItIsNow(t *testing.T) {
	w := newWorld(t, newPod2("web", 0), replica("web-0"))
	w.change(newPod("web-0 of=Pod2/web unlabelled"))
	if calls, err := w.sync(KindPod2, "web"); !errors.Is(err, ErrStale) {
		t.Fatalf("error %v, calls:\n%s", err, calls)
	}
	w.catchUp()
	calls, err := w.sync(KindPod2, "web")
	if err != nil || !strings.HasPrefix(calls, "delete pods web-0 uid=uid-of-web-0 rv=103") {
		t.Errorf("error %v, calls:\n%s", err, calls)
	}
}

// Otherwise each sync would delete it again until sightingTTL has passed.
func TestAFoundPodThatWasDeletedIsForgotten(t *testing.T) {
	w := newWorld(t, newPod2("web", 0))
	pod := newPod("web-0 of=Pod2/web unlabelled")
	w.add(pod)
	w.r.writePods.unwatched.remember(pod)
	calls, err := w.sync(KindPod2, "web")
	if err != nil || !strings.HasPrefix(calls, "delete pods web-0") {
		t.Fatalf("error %v, calls:\n%s", err, calls)
	}
	w.catchUp()
	if calls, err = w.sync(KindPod2, "web"); err != nil || strings.Contains(calls, "delete") {
		t.Errorf("error %v, calls:\n%s", err, calls)
	}
}

// An empty annotation would be one more value to keep up to date.
func TestTheLastFailureForgottenRemovesTheAnnotation(t *testing.T) {
	p := newPod2("web", 0)
	p.Annotations = map[string]string{v1.BackoffAnnotation: "{}"}
	w := newWorld(t, p)
	if _, err := w.sync(KindPod2, "web"); err != nil {
		t.Fatal(err)
	}
	if value, ok := stored[*v1.Pod2](w, "web").Annotations[v1.BackoffAnnotation]; ok {
		t.Errorf("it is %q", value)
	}
}

// Another controller lifts its own gate.
func TestPublishLiftsOurGateOnly(t *testing.T) {
	pod := newPod("a gated on=blue")
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, pod.Spec.SchedulingGates[0])
	pod.Spec.SchedulingGates[0].Name = "example.com/other"
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), pod)
	if _, err := w.sync(KindPod, "a"); err != nil {
		t.Fatal(err)
	}
	gates := ""
	for _, g := range podOf(w, "a").Spec.SchedulingGates {
		gates += g.Name
	}
	same(t, gates, "example.com/other")
}

// The fields that a slim pod lacks must survive: only annotations and the gate are written.
func TestPublishKeepsWhatTheCacheDropped(t *testing.T) {
	pod := newPod("a gated on=blue")
	pod.Annotations["example.com/note"] = "keep"
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), pod)
	if _, err := w.sync(KindPod, "a"); err != nil {
		t.Fatal(err)
	}
	same(t, podOf(w, "a").Annotations["example.com/note"], "keep")
}
