package reconcile

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2/dns"
)

// named0 publishes 10.1.0.2 on blue.
const named0 = "web-0 of=Pod2/web label=web published=blue:10.1.0.2"

// names returns a Pod2, its pods, and the objects for their DNS names, with the UIDs and
// labels that an API server and a user may have set.
func names(p *v1.Pod2, pods ...string) []runtime.Object {
	objects := []runtime.Object{p}
	s := dns.State{Now: now, Pod2: p}
	for _, text := range pods {
		pod := newPod(text)
		s.Pods = append(s.Pods, pod)
		objects = append(objects, pod)
	}
	for _, made := range dns.Diff(s).Services {
		made.Create.UID = "uid-of-service"
		s.Services = append(s.Services, made.Create)
		objects = append(objects, made.Create)
	}
	plan := dns.Diff(s)
	for _, made := range plan.Services {
		for _, slice := range made.CreateSlices {
			slice.UID = "uid-of-slice"
			objects = append(objects, slice)
		}
	}
	p.Status = *plan.Status
	return objects
}

// over0 is the same pod after it terminated.
const over0 = named0 + " phase=Failed"

// leaving takes the Pod2, which comes first, off its Networks, and terminates its pods.
func leaving(objects []runtime.Object) []runtime.Object {
	objects[0].(*v1.Pod2).Spec.Networks = nil
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok {
			pod.Status.Phase = corev1.PodFailed
		}
	}
	return objects
}

// unsaid removes the conditions from the Pod2, which comes first.
func unsaid(objects []runtime.Object) []runtime.Object {
	objects[0].(*v1.Pod2).Status.Conditions = nil
	return objects
}

// orphaned removes the owner references from Services and slices.
func orphaned(objects []runtime.Object) []runtime.Object {
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Service:
			o.OwnerReferences = nil
		case *discoveryv1.EndpointSlice:
			o.OwnerReferences = nil
		}
	}
	return objects
}

// happens changes objects on the server and in the caches.
func (w *world) happens(objects ...runtime.Object) {
	w.t.Helper()
	w.change(objects...)
	w.catchUp()
}

func (w *world) later(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func TestEndpointsWrites(t *testing.T) {
	for _, row := range []struct {
		name    string
		objects []runtime.Object // 101, 102 and so on
		change  func(*world)
		want    string
	}{
		{"created", []runtime.Object{newPod2("web", 1, "blue"), newPod(named0)}, nil, `
get pod2s web
create services web-blue`},
		{"created, beside an existing Service", names(newPod2("web", 1, "blue")), func(w *world) {
			w.add(newPod(named0))
			w.catchUp()
		}, `
get pod2s web
create endpointslices web-blue-0
wakes Pod2 web`},
		{"nothing to do", names(newPod2("web", 1, "blue"), named0), nil, ""},
		{"no Network", []runtime.Object{newPod2("web", 1), newPod("web-0 of=Pod2/web label=web")}, nil, ""},
		{"no Pod2", []runtime.Object{newPod(named0)}, nil, ""},
		{"a Pod2 that is being deleted", []runtime.Object{going(newPod2("web", 1, "blue")), newPod(named0)}, nil, ""},
		{"updated", names(newPod2("web", 1, "blue"), named0), func(w *world) {
			service := stored[*corev1.Service](w, "web-blue").DeepCopy()
			service.Spec.PublishNotReadyAddresses = false
			w.happens(service, newPod(named0+" going"))
		}, `
patch services web-blue uid=uid-of-service rv=105
patch endpointslices web-blue-0 uid=uid-of-slice rv=104`},
		{"adopted", orphaned(names(newPod2("web", 1, "blue"), named0)), nil, `
delete endpointslices web-blue-0 uid=uid-of-slice rv=104
get pod2s web
patch services web-blue uid=uid-of-service rv=103`},
		{"ports", names(newPod2("web", 1, "blue"), named0), func(w *world) {
			service := stored[*corev1.Service](w, "web-blue").DeepCopy()
			service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
			w.happens(service)
		}, `
delete endpointslices web-blue-0 uid=uid-of-slice rv=104
patch services web-blue uid=uid-of-service rv=105
wakes Pod2 web
event on web: Warning ServiceHasPorts: Service web-blue has ports, which let other users forward traffic to any address of Network blue: the controller removes them, and replicas have no DNS names there until then`},
		{"orphaned, without a Pod2", orphaned(names(newPod2("web", 1, "blue"), named0)), func(w *world) {
			w.remove(newPod2("web", 1, "blue"))
			w.catchUp()
		}, `
delete endpointslices web-blue-0 uid=uid-of-slice rv=104`},
		{"a Network that left the spec, while the replica is still on it", names(newPod2("web", 1, "blue"), named0), func(w *world) {
			w.happens(newPod2("web", 1))
		}, `
wakes Pod2 web`},
		{"deleted", names(newPod2("web", 1, "blue"), named0), func(w *world) {
			w.happens(newPod2("web", 1), newPod(over0))
		}, `
delete endpointslices web-blue-0 uid=uid-of-slice rv=104
delete services web-blue uid=uid-of-service rv=103`},
		{"a pod that is gone, on a live read", names(newPod2("web", 1, "blue"), named0), func(w *world) {
			w.remove(newPod(named0))
			w.catchUp()
		}, `
get pods web-0 -> NotFound
delete endpointslices web-blue-0 uid=uid-of-slice rv=104
wakes Pod2 web`},
		{"a new Pod2 with this name", names(newPod2("web", 1, "blue"), named0), func(w *world) {
			w.happens(another(newPod2("web", 1, "blue")))
		}, `
wakes Pod2 web`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			if row.change != nil {
				row.change(w)
			}
			cached := w.r.pod2s.get(ns, "web")
			before := cached.DeepCopy()
			calls, err := w.sync(KindDNS, "web")
			if err != nil {
				t.Fatal(err)
			}
			same(t, calls, row.want)
			if !equality.Semantic.DeepEqual(cached, before) {
				t.Error("the sync changed an object in the cache")
			}
		})
	}
}

// Two kinds write the status of a Pod2. Neither reverts the other.
func TestBothConditionsStand(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newPod2("web", 0, "blue"))
	if _, err := w.sync(KindPod2, "web"); err != nil {
		t.Fatal(err)
	}
	if calls, err := w.sync(KindDNS, "web"); !errors.Is(err, ErrStale) {
		t.Fatalf("written on an old view: %v\n%s", err, calls)
	}
	w.catchUp()
	for _, kind := range []string{KindDNS, KindDNS, KindPod2} {
		if _, err := w.sync(kind, "web"); err != nil {
			t.Fatal(err)
		}
		w.catchUp()
	}
	var types []string
	for _, c := range stored[*v1.Pod2](w, "web").Status.Conditions {
		types = append(types, c.Type+"="+string(c.Status))
	}
	same(t, strings.Join(types, " "), "Ready=True Available=True Progressing=True DNSPublished=True")
}

// A change within a second of a write waits until the second has passed. The first change
// does not wait.
func TestChangesAreWrittenInBatches(t *testing.T) {
	w := newWorld(t, names(newPod2("web", 3, "blue"), named0)...)
	w.add(newPod("web-1 of=Pod2/web label=web published=blue:10.1.0.3"))
	w.catchUp()
	calls, err := w.sync(KindDNS, "web")
	if err != nil {
		t.Fatal(err)
	}
	same(t, calls, "patch endpointslices web-blue-0 uid=uid-of-slice rv=104")
	w.add(newPod("web-2 of=Pod2/web label=web published=blue:10.1.0.4"))
	w.catchUp()
	w.later(namesEvery / 4)
	result, err := w.r.Sync(t.Context(), webNames)
	if err != nil || result.RequeueAfter != namesEvery*3/4 {
		t.Errorf("it wants to run again after %s, error %v", result.RequeueAfter, err)
	}
	w.later(result.RequeueAfter)
	if calls, err = w.sync(KindDNS, "web"); err != nil {
		t.Fatal(err)
	}
	same(t, calls, "patch endpointslices web-blue-0 uid=uid-of-slice rv=106")
	w.later(namesEvery)
	w.catchUp()
	if _, err = w.sync(KindDNS, "web"); err != nil || len(w.r.kinds.dns.throttle.ends) > 0 {
		t.Errorf("error %v, still remembered: %v", err, w.r.kinds.dns.throttle.ends)
	}
}

// A pod that lost the label that our watch selects keeps its DNS name, because it lives.
func TestAPodThatOurWatchMissesKeepsItsName(t *testing.T) {
	w := newWorld(t, names(newPod2("web", 1, "blue"), named0)...)
	pod := newPod(named0 + " unlabelled")
	w.happens(pod)
	calls, err := w.sync(KindDNS, "web")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, calls, "get pods web-0")
	for range 3 {
		w.calls = nil
		result, err := w.r.Sync(t.Context(), webNames)
		if err != nil || len(w.calls) > 0 || result.RequeueAfter != sightingTTL {
			t.Errorf("error %v, again in %s, calls\n%s", err, result.RequeueAfter, w.calls)
		}
		w.later(sightingTTL)
		if calls, _ := w.sync(KindDNS, "web"); calls != "get pods web-0" {
			t.Errorf("after a while, calls\n%s", calls)
		}
	}
}

func TestEndpointsKeys(t *testing.T) {
	label := metav1.ObjectMeta{Namespace: ns, Name: "x", Labels: map[string]string{v1.Pod2Label: "web"}}
	for _, row := range []struct {
		name  string
		event runtime.Object
		want  string
	}{
		{"Service with the label", &corev1.Service{ObjectMeta: label}, "DNS web"},
		{"slice with the label", &discoveryv1.EndpointSlice{ObjectMeta: label}, "DNS web"},
		{"pod that publishes", newPod(named0), "AddressSlice blue, DNS web, Network blue, Pod web-0, Pod2 web"},
		{"pod that has yet to publish", newPod("web-0 of=Pod2/web label=web on=blue gated"), "Network blue, Pod web-0, Pod2 web"},
	} {
		t.Run(row.name, func(t *testing.T) { same(t, newWorld(t).keysFor(row.event), row.want) })
	}
}

func TestSlimPodsHaveTheSameNames(t *testing.T) {
	plan := func(pods []*corev1.Pod) string {
		made := dns.Diff(dns.State{Now: now, Pod2: newPod2("web", 8, "blue"), Pods: pods}).Services[0]
		text, err := json.Marshal(made.CreateSlices)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	same(t, plan(slimmed(fatPods())), plan(fatPods()))
}
