package reconcile

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// restoredNetwork came back from a backup more than a minute ago.
func restoredNetwork(text string) *v1.Network {
	n := newNetwork(text)
	n.Annotations[v1.NetworkUIDAnnotation] = "uid-of-an-earlier-one"
	return n
}

func restoredBlock(entries ...string) *v1.AddressBlock {
	b := newBlock("blue", entries...)
	b.OwnerReferences, b.Finalizers, b.Spec.NetworkUID = nil, nil, "uid-of-an-earlier-one"
	return b
}

// An AddressBlock is inherited after three live reads: of its pods, of the Network, and
// of the pods outside our watch.
func TestInheritingIsConfirmed(t *testing.T) {
	w := newWorld(t, restoredNetwork("blue"), restoredBlock("10.1.0.2 a Bound", "10.1.0.3 b Reserved"))
	calls, err := w.sync(KindNetwork, "blue")
	if err != nil {
		t.Fatal(err)
	}
	same(t, withoutEvents(calls), `
get pods a -> NotFound
get networks blue
list pods limit=500 selector=samplecrd.k8s.io/managed!=true
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=102
patch networks/status blue uid=uid-of-blue rv=101`)
}

func TestNothingIsInheritedOnAnOldView(t *testing.T) {
	begun, going, mine := newNetwork("blue"), restoredNetwork("blue going"), restoredNetwork("blue")
	mine.UID = "uid-of-an-earlier-one"
	for _, row := range []struct {
		name   string
		change func(*world)
		want   string
	}{
		{"the Network is gone", func(w *world) { w.remove(restoredNetwork("blue")) }, `
get pods a
get networks blue -> NotFound`},
		{"the Network is another", func(w *world) { w.change(another(restoredNetwork("blue"))) }, `
get pods a
get networks blue`},
		{"the Network is the one that the block names", func(w *world) { w.change(mine) }, `
get pods a
get networks blue`},
		{"the Network began to hand out addresses", func(w *world) { w.change(begun) }, `
get pods a
get networks blue`},
		{"the Network is being deleted", func(w *world) { w.change(going) }, `
get pods a
get networks blue`},
		{"the Network has no finalizer", func(w *world) { w.change(restoredNetwork("blue unprotected")) }, `
get pods a
get networks blue`},
		{"one of its pods lives", func(w *world) { w.change(newPod("a unlabelled")) }, `
get pods a`},
		{"the block changed", func(w *world) { w.change(restoredBlock("10.1.0.2 a Bound")) }, `
get pods a
get networks blue
list pods limit=500 selector=samplecrd.k8s.io/managed!=true
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=102 -> Conflict`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, restoredNetwork("blue"), restoredBlock("10.1.0.2 a Bound"), newPod("a unlabelled phase=Failed"))
			row.change(w)
			calls, err := w.sync(KindNetwork, "blue")
			if !errors.Is(err, ErrStale) {
				t.Errorf("not stale: %v", err)
			}
			same(t, calls, row.want)
		})
	}
}

// An AddressBlock that is not inherited before the Network begins never is. So the pod that
// prevents it must really live.
func TestNetworkBeginsOnlyBesidePodsThatLive(t *testing.T) {
	for _, row := range []struct{ name, now, want string }{
		{"it lives", "a published=blue:10.1.0.2", `
get pods a
patch networks blue uid=uid-of-blue rv=101
get networks blue
patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=102
patch networks/status blue uid=uid-of-blue rv=105`},
		{"it failed, and the cache does not show it yet", "a published=blue:10.1.0.2 phase=Failed", `
get pods a`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, restoredNetwork("blue"), restoredBlock("10.1.0.2 a Bound", "10.1.0.3 b Reserved"), newPod("a published=blue:10.1.0.2"))
			w.change(newPod(row.now))
			calls, _ := w.sync(KindNetwork, "blue")
			same(t, withoutEvents(calls), row.want)
		})
	}
}

// A view of the Network from before the restore would treat the AddressBlock as its own.
func TestARestoredBlockIsNotWrittenForTheEarlierNetwork(t *testing.T) {
	block := restoredBlock("10.1.0.2 a Bound")
	block.Spec.NetworkUID = newNetwork("blue").UID
	w := newWorld(t, newNetwork("blue"), block, newPod("b gated on=blue"))
	w.change(another(newNetwork("blue")))
	calls, err := w.sync(KindNetwork, "blue")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, calls, `
get pods a -> NotFound
get networks blue`)
}

// Only an entry that binds the pod makes it wait for a Network that the cache lacks.
func TestRestoredPodDoesNotWaitForTheNetworkOfItsBlock(t *testing.T) {
	for _, row := range []struct {
		name  string
		block runtime.Object
		stale bool
	}{
		{"its entry has the pod's old UID", restoredBlock("10.1.0.2 a Reserved"), false},
		{"its entry binds it", restoredBlock("10.1.0.2 a Bound"), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, restoredNetwork("blue"), row.block, newPod("a gated on=blue"))
			if _, err := w.sync(KindPod, "a"); errors.Is(err, ErrStale) != row.stale {
				t.Error(err)
			}
		})
	}
}
