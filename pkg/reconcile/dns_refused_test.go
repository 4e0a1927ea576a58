package reconcile

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// The Pod2 reports a refusal of the API server, and the write is tried again. The names
// on the other Network are not affected.
func TestARefusedServiceIsTold(t *testing.T) {
	w := newWorld(t, newPod2("web", 1, "blue", "green"), newPod("web-0 of=Pod2/web label=web published=green:10.1.0.2"))
	w.refuse = refusing("create services web-blue", apierrors.NewForbidden(corev1.Resource("services"), "web-blue", errors.New("exceeded quota")))
	calls, err := w.sync(KindDNS, "web")
	if err == nil || len(w.r.kinds.dns.throttle.ends) > 0 {
		t.Errorf("there is no retry with backoff: %v", err)
	}
	same(t, calls, `
get pod2s web
create services web-blue -> Forbidden
create services web-green
wakes Pod2 web
event on web: Warning FailedCreate: services "web-blue" is forbidden: exceeded quota`)
	_, _ = w.sync(KindPod2, "web")
	c := meta.FindStatusCondition(stored[*v1.Pod2](w, "web").Status.Conditions, v1.ConditionDNSPublished)
	if c == nil {
		t.Fatal("its status does not report it")
	}
	same(t, fmt.Sprintf("%s %s", c.Status, c.Reason), "False FailedCreate")
}

// An error that no user can fix is not reported, and nothing follows it.
func TestABrokenServerIsNotTold(t *testing.T) {
	there := func() []runtime.Object { return append(unsaid(names(newPod2("web", 1, "blue"))), newPod(named0)) }
	for _, row := range []struct {
		refused string
		objects []runtime.Object
		want    string
	}{
		{"create services", []runtime.Object{newPod2("web", 1, "blue"), newPod(named0)}, "get pod2s web\ncreate services web-blue -> InternalError"},
		{"create endpointslices", there(), "get pod2s web\ncreate endpointslices web-blue-0 -> InternalError"},
	} {
		w := newWorld(t, row.objects...)
		w.refuse = refusing(row.refused, apierrors.NewInternalError(errors.New("etcd is down")))
		calls, err := w.sync(KindDNS, "web")
		if err == nil {
			t.Error("there is no retry")
		}
		same(t, calls, row.want)
	}
}

// An error that stops the other writes does not prevent two things: slices beside a
// Service with ports are deleted, and the condition says why. Here the read of a pod
// without the label fails.
func TestSlicesAreWithdrawnWhateverStopsTheRest(t *testing.T) {
	w := newWorld(t, names(newPod2("web", 2, "blue", "green"), named0, "web-1 of=Pod2/web label=web published=green:10.1.0.3")...)
	service := stored[*corev1.Service](w, "web-blue").DeepCopy()
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	w.remove(newPod("web-1"))
	w.happens(service)
	w.refuse = refusing("get pods web-1", apierrors.NewInternalError(errors.New("etcd is down")))
	calls, err := w.sync(KindDNS, "web")
	if err == nil {
		t.Error("there is no retry")
	}
	same(t, calls, `
delete endpointslices web-blue-0 uid=uid-of-slice rv=106
get pods web-1 -> InternalError
wakes Pod2 web
event on web: Warning ServiceHasPorts: Service web-blue has ports, which let other users forward traffic to any address of Network blue: the controller removes them, and replicas have no DNS names there until then`)
}

// The cluster differs from the view: the controller makes no write.
func TestEndpointsPreconditions(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*world)
		want   string
	}{
		{"slice changed", func(w *world) {
			w.happens(newPod(named0 + " going"))
			w.change(stored[*discoveryv1.EndpointSlice](w, "web-blue-0").DeepCopy())
		}, "patch endpointslices web-blue-0 uid=uid-of-slice rv=104 -> Conflict"},
		{"slice is another", func(w *world) {
			w.happens(newPod2("web", 1), newPod(over0))
			w.change(another(stored[*discoveryv1.EndpointSlice](w, "web-blue-0").DeepCopy()))
		}, "delete endpointslices web-blue-0 uid=uid-of-slice rv=104 -> Conflict"},
		{"orphaned Service got another owner", func(w *world) {
			service := stored[*corev1.Service](w, "web-blue").DeepCopy()
			service.OwnerReferences = nil
			w.happens(service.DeepCopy())
			service.OwnerReferences = []metav1.OwnerReference{{Kind: "Gateway", Name: "g", UID: "u", Controller: ptr.To(true)}}
			w.change(service)
		}, "delete endpointslices web-blue-0 uid=uid-of-slice rv=104\nget pod2s web\npatch services web-blue uid=uid-of-service rv=105 -> Conflict"},
		{"Service is another", func(w *world) {
			w.happens(newPod2("web", 1), newPod(over0))
			w.change(another(stored[*corev1.Service](w, "web-blue").DeepCopy()))
		}, "delete endpointslices web-blue-0 uid=uid-of-slice rv=104\ndelete services web-blue uid=uid-of-service rv=103 -> Conflict"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, names(newPod2("web", 1, "blue"), named0)...)
			row.change(w)
			calls, err := w.sync(KindDNS, "web")
			if !errors.Is(err, ErrStale) {
				t.Errorf("not stale: %v", err)
			}
			same(t, calls, row.want)
		})
	}
}
