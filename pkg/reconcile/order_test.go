package reconcile

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// crowded is a new Network with one free address, which two pods ask for.
func crowded() []runtime.Object {
	return []runtime.Object{newNetwork("blue 10.1.0.0/30 unprotected"), newPod("a gated on=blue"), newPod("b gated on=blue")}
}

// failing is a Pod2 with one pod to replace and one to create.
func failing() []runtime.Object {
	return []runtime.Object{newPod2("web", 2), replica("web-0 phase=Failed")}
}

const (
	crowdedCalls = `
patch networks blue uid=uid-of-blue rv=101
get networks blue
list pods limit=500 selector=samplecrd.k8s.io/managed!=true
create addressblocks blue-10.1.0.0
get networks blue
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=105
patch pods/status b uid=uid-of-b
event on b: Warning NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
patch networks/status blue uid=uid-of-blue rv=104
event on blue: Warning NetworkExhausted: no address is free for: b; grow spec.cidr, or delete pods that hold one`
	failingCalls = `
get pod2s web
patch pod2s web uid=uid-of-web rv=101
delete pods web-0 uid=uid-of-web-0 rv=102
create pods web-1
patch pod2s/status web uid=uid-of-web rv=103
event on web: Warning Replacing: deleted web-0 (terminated)
event on web: Normal SuccessfulCreate: created web-1: scaled up`
)

// The writes are in the order of the plans: writes that protect come first, reports last.
func TestWritesAreInTheOrderOfThePlan(t *testing.T) {
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		key     Key
		want    string
	}{
		{"Network", crowded(), blue, crowdedCalls},
		{"Pod2", failing(), web, failingCalls},
		{"pod", []runtime.Object{newPod("a gated")}, podA, `
patch pods/status a uid=uid-of-a
event on a: Warning MissingRequest: the pod has the scheduling gate samplecrd.k8s.io/addresses but no annotation samplecrd.k8s.io/networks; name the Networks there, or remove the gate`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			calls, err := w.sync(row.key.Kind, row.key.Name)
			if err != nil {
				t.Fatal(err)
			}
			same(t, calls, row.want)
		})
	}
}

// Writes that do not depend on the failed write are still made.
func TestApplyGoesOnAfterAnError(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("etcd is down"))
	for _, row := range []struct {
		name, refused string
		objects       []runtime.Object
		key           Key
		want          string
	}{
		{"finalizer", "patch networks ", crowded(), blue, `
patch networks blue uid=uid-of-blue rv=101 -> InternalError
patch networks/status blue uid=uid-of-blue rv=101`},
		{"Network read", "get networks", crowded(), blue, `
patch networks blue uid=uid-of-blue rv=101
get networks blue -> InternalError
patch networks/status blue uid=uid-of-blue rv=104`},
		{"block", "create addressblocks", crowded(), blue, `
patch networks blue uid=uid-of-blue rv=101
get networks blue
list pods limit=500 selector=samplecrd.k8s.io/managed!=true
create addressblocks blue-10.1.0.0 -> InternalError
patch networks/status blue uid=uid-of-blue rv=104`},
		{"condition", "patch pods/status", crowded(), blue, `
patch networks blue uid=uid-of-blue rv=101
get networks blue
list pods limit=500 selector=samplecrd.k8s.io/managed!=true
create addressblocks blue-10.1.0.0
get networks blue
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=105
patch pods/status b uid=uid-of-b -> InternalError
patch networks/status blue uid=uid-of-blue rv=104
event on blue: Warning NetworkExhausted: no address is free for: b; grow spec.cidr, or delete pods that hold one`},
		{"status of a Network", "patch networks/status", crowded(), blue, `
patch networks blue uid=uid-of-blue rv=101
get networks blue
list pods limit=500 selector=samplecrd.k8s.io/managed!=true
create addressblocks blue-10.1.0.0
get networks blue
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=105
patch pods/status b uid=uid-of-b
event on b: Warning NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
patch networks/status blue uid=uid-of-blue rv=104 -> InternalError`},
		{"failure record", "patch pod2s ", failing(), web, `
get pod2s web
patch pod2s web uid=uid-of-web rv=101 -> InternalError
create pods web-1
patch pod2s/status web uid=uid-of-web rv=101
event on web: Normal SuccessfulCreate: created web-1: scaled up`},
		{"deletion", "delete pods", failing(), web, `
get pod2s web
patch pod2s web uid=uid-of-web rv=101
delete pods web-0 uid=uid-of-web-0 rv=102 -> InternalError
create pods web-1
patch pod2s/status web uid=uid-of-web rv=103
event on web: Normal SuccessfulCreate: created web-1: scaled up`},
		{"creation", "create pods", failing(), web, `
get pod2s web
patch pod2s web uid=uid-of-web rv=101
delete pods web-0 uid=uid-of-web-0 rv=102
create pods web-1 -> InternalError
patch pod2s/status web uid=uid-of-web rv=103
event on web: Warning Replacing: deleted web-0 (terminated)`},
		{"status of a Pod2", "patch pod2s/status", failing(), web, `
get pod2s web
patch pod2s web uid=uid-of-web rv=101
delete pods web-0 uid=uid-of-web-0 rv=102
create pods web-1
patch pod2s/status web uid=uid-of-web rv=103 -> InternalError
event on web: Warning Replacing: deleted web-0 (terminated)
event on web: Normal SuccessfulCreate: created web-1: scaled up`},
		{"addresses", "patch pods", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue")}, podA, `
patch pods a uid=uid-of-a rv=103 -> InternalError`},
		{"complaint", "patch pods/status", []runtime.Object{newPod("a gated")}, podA, `
patch pods/status a uid=uid-of-a -> InternalError`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			w.refuse = refusing(row.refused, broken)
			calls, err := w.sync(row.key.Kind, row.key.Name)
			if !says(err, broken) {
				t.Errorf("the cause is lost: %v", err)
			}
			same(t, calls, row.want)
		})
	}
}

// The Network may be gone once its finalizer is removed: a later status update could only
// fail.
func TestNothingIsSaidAfterTheFinalizerWasRemoved(t *testing.T) {
	w := newWorld(t, newNetwork("blue going"), newPod("a gated on=blue"))
	calls, err := w.sync(KindNetwork, "blue")
	if err != nil {
		t.Fatal(err)
	}
	same(t, calls, "list addressblocks\npatch networks blue uid=uid-of-blue rv=101")
}

// The next sync continues where the last one stopped, with the same result.
func TestAStoppedApplyIsTakenUpAgain(t *testing.T) {
	w := newWorld(t, crowded()...)
	w.refuse = refusing("create addressblocks", errors.New("etcd is down"))
	if _, err := w.sync(KindNetwork, "blue"); err == nil {
		t.Fatal("no error")
	}
	w.refuse = nil
	w.catchUp()
	calls, err := w.sync(KindNetwork, "blue")
	if err != nil {
		t.Fatal(err)
	}
	same(t, calls, `
get networks blue
list pods limit=500 selector=samplecrd.k8s.io/managed!=true
create addressblocks blue-10.1.0.0
get networks blue
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=106
patch pods/status b uid=uid-of-b
event on b: Warning NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
patch networks/status blue uid=uid-of-blue rv=105
event on blue: Warning NetworkExhausted: no address is free for: b; grow spec.cidr, or delete pods that hold one`)
}

// The event is sent once, with the write that reassigns the address. It does not wait for
// the status, which the next sync may have to write again without knowing about the
// address.
func TestAnAddressThatIsReassignedIsReportedOnce(t *testing.T) {
	const told = "event on blue: Warning AddressReassigned: reassigned 10.1.0.2 from scaled-down replica web-3 to pod a\n"
	for _, row := range []struct{ name, refused, first, second string }{
		{"the block write conflicts", "patch addressblocks", "", told},
		{"the status conflicts", "patch networks/status", told, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, newNetwork("blue 10.1.0.0/30"), newPod2("web", 3, "blue"), newBlock("blue", "10.1.0.2 web-3 Reserved Pod2/web"), newPod("a gated on=blue"))
			w.refuse = refusing(row.refused, errConflict)
			calls, err := w.sync(KindNetwork, "blue")
			if !errors.Is(err, ErrStale) {
				t.Fatalf("not stale: %v", err)
			}
			same(t, linesWith(calls, "Reassigned"), row.first)
			w.refuse = nil
			w.catchUp()
			if calls, err = w.sync(KindNetwork, "blue"); err != nil {
				t.Fatal(err)
			}
			same(t, linesWith(calls, "Reassigned"), row.second)
		})
	}
}

func linesWith(text, part string) (found string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			found += line
		}
	}
	return found
}
