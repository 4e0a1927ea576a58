package reconcile

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

func revisionOf(p *v1.Pod2) *appsv1.ControllerRevision {
	return pod2.Diff(pod2.State{Pod2: p}).CreateRevision
}

func TestRevisionIsOnRecordBeforeThePods(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.remove(revisionOf(newPod2("web", 1)))
	w.catchUp()
	calls, err := w.sync(KindPod2, "web")
	if err != nil {
		t.Fatal(err)
	}
	same(t, withoutEvents(calls), `
get pod2s web
create controllerrevisions web-8thblnnq62
create pods web-0
patch pod2s/status web uid=uid-of-web rv=101`)
}

func TestRevisionsAreChangedAndDeletedWithTheirPreconditions(t *testing.T) {
	p := newPod2("web", 0)
	p.Spec.RevisionHistoryLimit = ptr.To[int32](0)
	w := newWorld(t, p)
	newer := revisionOf(p)
	newer.Name, newer.UID, newer.Revision = "web-newer", "uid-of-newer", 7
	newer.Data.Raw, newer.Labels[v1.PodTemplateHashLabel] = []byte(`{"template":{}}`), "newer"
	w.add(newer)
	w.catchUp()
	calls, err := w.sync(KindPod2, "web")
	if err != nil {
		t.Fatal(err)
	}
	same(t, withoutEvents(calls), `
get pod2s web
patch controllerrevisions web-8thblnnq62 uid=uid-of-revision rv=100
delete controllerrevisions web-newer uid=uid-of-newer rv=102
patch pod2s/status web uid=uid-of-web rv=101`)
}

// An object without our label, outside our watch, has the name.
func TestARevisionsNameThatIsTaken(t *testing.T) {
	p := newPod2("web", 1)
	w := newWorld(t, p)
	foreign := revisionOf(p)
	foreign.Labels, foreign.OwnerReferences = nil, nil
	w.change(foreign)
	c := w.cacheOf(foreign)
	if err := c.store.Replace(nil, "101"); err != nil {
		t.Fatal(err)
	}
	calls, err := w.sync(KindPod2, "web")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, calls, `
get pod2s web
create controllerrevisions web-8thblnnq62 -> AlreadyExists
get controllerrevisions web-8thblnnq62
patch pod2s/status web uid=uid-of-web rv=101`)
	if n := ptr.Deref(stored[*v1.Pod2](w, "web").Status.CollisionCount, 0); n != 1 {
		t.Errorf("%d collisions", n)
	}
}

// Without the revision no pod may be created, so the user must know.
func TestARefusedRevisionIsTold(t *testing.T) {
	p := newPod2("web", 1)
	w := newWorld(t, p)
	w.remove(revisionOf(p))
	w.catchUp()
	w.refuse = refusing("create controllerrevisions", quota)
	_, _ = w.sync(KindPod2, "web")
	same(t, readyOf(w), "FailedCreate: exceeded quota")
}

func TestARevisionConcernsItsPod2(t *testing.T) {
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x", Labels: map[string]string{v1.Pod2Label: "web"}}}
	same(t, newWorld(t).keysFor(revision), "Pod2 web")
}

// Revisions of earlier releases contain only the names of their Networks.
func TestWhatARevisionLacksIsRecordedOnce(t *testing.T) {
	p := newPod2("web", 1, "blue")
	earlier := revisionOf(p)
	earlier.Annotations, earlier.UID = nil, "uid-of-earlier"
	p.Spec.Networks[0].Interface = "eth0"
	w := newWorld(t, p, newNetwork("blue"))
	w.remove(revisionOf(p)) // which newWorld adds
	w.add(earlier)
	w.catchUp()
	if _, err := w.sync(KindPod2, "web"); err != nil {
		t.Fatal(err)
	}
	same(t, stored[*appsv1.ControllerRevision](w, earlier.Name).Annotations[v1.RevisionNetworksAnnotation], `[{"name":"blue","interface":"eth0"}]`)
	w.catchUp()
	calls, err := w.sync(KindPod2, "web")
	if err != nil || strings.Contains(calls, "controllerrevisions") {
		t.Errorf("again: %v\n%s", err, calls)
	}
}
