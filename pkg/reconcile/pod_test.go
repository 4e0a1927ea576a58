package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// The condition of a published pod has no old message from when the pod waited. A merge
// patch keeps absent fields.
func TestConditionOfAPodThatWaited(t *testing.T) {
	pod := newPod("a gated on=blue")
	pod.Status.Conditions = []corev1.PodCondition{{Type: v1.ConditionAddressesBound, Status: corev1.ConditionFalse, Reason: "NetworkNotFound", Message: "Network \"blue\" does not exist"}}
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), pod)
	for range 2 { // published, and the condition says so
		if _, err := w.sync(KindPod, "a"); err != nil {
			t.Fatal(err)
		}
		w.catchUp()
	}
	c := podOf(w, "a").Status.Conditions[0]
	same(t, fmt.Sprintf("%s %s %q", c.Status, c.Reason, c.Message), `True Published ""`)
}

// Another controller has a gate of its own, which it lifts itself.
func TestPublicationLiftsOneGate(t *testing.T) {
	const other = "example.com/quota"
	for _, row := range []struct {
		name    string
		was, is []string // gates in the view, and on the API server
		want    string
	}{
		{"the first", []string{v1.AddressesGate, other}, []string{v1.AddressesGate, other}, other},
		{"the last", []string{other, v1.AddressesGate}, []string{other, v1.AddressesGate}, other},
		{"the view is old", []string{other, v1.AddressesGate}, []string{v1.AddressesGate}, "stale"},
	} {
		t.Run(row.name, func(t *testing.T) {
			gated := func(names []string) *corev1.Pod {
				pod := newPod("a on=blue")
				for _, name := range names {
					pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
				}
				return pod
			}
			w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), gated(row.was))
			if len(row.is) < len(row.was) {
				w.change(gated(row.is))
			}
			_, err := w.sync(KindPod, "a")
			got := "stale"
			if !errors.Is(err, ErrStale) {
				got = ""
				for _, gate := range podOf(w, "a").Spec.SchedulingGates {
					got += gate.Name
				}
			}
			same(t, got, row.want)
		})
	}
}

// The decision is about the pod in the view. If somebody applied the pod since, the write is refused.
func TestPublicationClearsManagedFields(t *testing.T) {
	for _, row := range []struct{ name, was, is, want string }{
		{"nobody applied the pod", "Update", "Update", ""},
		{"its controller applied it", "Update Apply", "Update Apply", "Update Apply"},
		{"somebody applied it since", "Update", "Update Apply", "stale: Update Apply"},
	} {
		t.Run(row.name, func(t *testing.T) {
			managed := func(operations string) *corev1.Pod {
				pod := newPod("a gated on=blue of=ReplicaSet/rs")
				for operation := range strings.FieldsSeq(operations) {
					pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{Operation: metav1.ManagedFieldsOperationType(operation)})
				}
				return pod
			}
			w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), managed(row.was))
			if row.is != row.was {
				w.change(managed(row.is))
			}
			var got []string
			if _, err := w.sync(KindPod, "a"); errors.Is(err, ErrStale) {
				got = append(got, "stale:")
			} else if err != nil {
				t.Fatal(err)
			}
			for _, e := range podOf(w, "a").ManagedFields {
				got = append(got, string(e.Operation))
			}
			same(t, strings.Join(got, " "), row.want)
		})
	}
}

// A pod that a former Network bound too is published only if the view of the Network is not
// older than that AddressBlock.
func TestPublishBesideAFormerNetwork(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*world)
		stale  bool
		want   string
	}{
		{"the Network is the one in the view", func(*world) {}, false, `
get networks blue
patch pods a uid=uid-of-a rv=104`},
		{"the Network is another", func(w *world) { w.change(another(newNetwork("blue"))) }, true, `
get networks blue`},
		{"the Network is gone", func(w *world) { w.remove(newNetwork("blue")) }, true, `
get networks blue -> NotFound`},
	} {
		t.Run(row.name, func(t *testing.T) {
			former := newBlock("blue", "10.1.1.2 a Bound")
			former.Name, former.UID, former.Spec.CIDR, former.Spec.NetworkUID = "blue-10.1.1.0", "uid-of-blue-10.1.1.0", "10.1.1.0/24", "uid-of-an-earlier-one"
			w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), former, newPod("a gated on=blue"))
			row.change(w)
			calls, err := w.sync(KindPod, "a")
			if errors.Is(err, ErrStale) != row.stale {
				t.Errorf("got %v", err)
			}
			same(t, withoutEvents(calls), row.want)
		})
	}
}
