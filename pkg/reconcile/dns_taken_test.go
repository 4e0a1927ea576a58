package reconcile

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func foreignService() *corev1.Service {
	return &corev1.Service{ObjectMeta: metaOf("web-blue"), Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.9"}}
}

// A Service of another owner is outside our watch, and is found when the controller
// creates its own. The controller reports it once, leaves it alone, and tries again after
// a while.
func TestANameThatIsTakenIsToldAndLeftAlone(t *testing.T) {
	w := newWorld(t, newPod2("web", 1, "blue"), newPod(named0), foreignService())
	const found = "get pod2s web\ncreate services web-blue -> AlreadyExists\nget services web-blue"
	calls, err := w.sync(KindDNS, "web")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, calls, found)
	if calls, err = w.sync(KindDNS, "web"); err != nil {
		t.Fatal(err)
	}
	same(t, calls, `
wakes Pod2 web
event on web: Warning NameTaken: Service web-blue already exists and has no controller: delete it so that replicas can have DNS names on Network blue`)
	w.catchUp()
	w.later(sightingTTL / 2)
	result, err := w.r.Sync(t.Context(), webNames)
	if err != nil || result.RequeueAfter != sightingTTL/2 {
		t.Errorf("it wants to run again after %s, error %v", result.RequeueAfter, err)
	}
	w.later(result.RequeueAfter)
	calls, _ = w.sync(KindDNS, "web")
	same(t, calls, found)
	w.remove(foreignService())
	w.later(sightingTTL)
	if calls, err = w.sync(KindDNS, "web"); err != nil {
		t.Fatal(err)
	}
	same(t, calls, `
get pod2s web
create services web-blue`)
	if left := w.r.writeServices.unwatched.sightings; len(left) > 0 {
		t.Errorf("still remembered: %v", left)
	}
}

func TestASliceNameThatIsTaken(t *testing.T) {
	foreign := &discoveryv1.EndpointSlice{ObjectMeta: metaOf("web-blue-0")}
	w := newWorld(t, append(names(newPod2("web", 1, "blue")), newPod(named0), newPod("web-100 of=Pod2/web label=web published=blue:10.1.0.3"), foreign)...)
	if _, err := w.sync(KindDNS, "web"); !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	w.catchUp()
	calls, err := w.sync(KindDNS, "web")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(calls, "event on web: Warning NameTaken: EndpointSlice web-blue-0 already exists") || strings.Contains(calls, "web-blue-0 rv") {
		t.Errorf("calls are\n%s", calls)
	}
	if got := stored[*discoveryv1.EndpointSlice](w, "web-blue-1").Endpoints; len(got) != 1 {
		t.Errorf("the other slice has %v", got)
	}
	w.catchUp()
	w.later(sightingTTL / 2)
	if result, err := w.r.Sync(t.Context(), webNames); err != nil || result.RequeueAfter != sightingTTL/2 {
		t.Errorf("it wants to run again after %s, error %v", result.RequeueAfter, err)
	}
}

// A user removed the label that our watch selects; the Service still belongs to the Pod2.
func TestAServiceThatLostItsLabelGetsItBack(t *testing.T) {
	w := newWorld(t, names(newPod2("web", 1, "blue"), named0)...)
	service := stored[*corev1.Service](w, "web-blue").DeepCopy()
	service.Labels = nil
	w.happens(service)
	if calls, err := w.sync(KindDNS, "web"); !errors.Is(err, ErrStale) {
		t.Fatalf("not stale: %v\n%s", err, calls)
	}
	w.catchUp()
	calls, err := w.sync(KindDNS, "web")
	if err != nil {
		t.Fatal(err)
	}
	same(t, calls, "patch services web-blue uid=uid-of-service rv=105")
	same(t, stored[*corev1.Service](w, "web-blue").Labels[v1.Pod2Label], "web")
}

// The same, but the Network has left the spec in the meantime.
func TestAServiceThatLostItsLabelIsDeletedOnce(t *testing.T) {
	w := newWorld(t, names(newPod2("web", 1, "blue"), named0)...)
	service := stored[*corev1.Service](w, "web-blue").DeepCopy()
	service.Labels = nil
	w.happens(service)
	_, _ = w.sync(KindDNS, "web")
	w.happens(newPod2("web", 1), newPod(over0))
	for _, want := range []string{"delete services web-blue uid=uid-of-service rv=105", ""} {
		calls, err := w.sync(KindDNS, "web")
		if err != nil {
			t.Fatal(err)
		}
		same(t, calls, want)
		w.later(namesEvery)
		w.catchUp()
	}
}

// If a remembered object has changed, it is read again before the next attempt.
func TestAHolderThatChangedIsForgotten(t *testing.T) {
	w := newWorld(t, names(newPod2("web", 1, "blue"), named0)...)
	service := stored[*corev1.Service](w, "web-blue").DeepCopy()
	service.Labels = nil
	w.happens(service)
	_, _ = w.sync(KindDNS, "web")
	w.catchUp()
	w.change(service.DeepCopy())
	calls, err := w.sync(KindDNS, "web")
	if !errors.Is(err, ErrStale) || len(w.r.writeServices.unwatched.sightings) > 0 {
		t.Errorf("error %v, remembered %v", err, w.r.writeServices.unwatched.sightings)
	}
	same(t, calls, "patch services web-blue uid=uid-of-service rv=105 -> Conflict")
}
