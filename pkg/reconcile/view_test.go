package reconcile

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	storageclients "k8s.io/client-go/kubernetes/typed/storage/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// withClasses are clients of a server that has no StorageClasses itself.
type withClasses struct {
	kubernetes.Interface
	classes kubernetes.Interface
}

func (c withClasses) StorageV1() storageclients.StorageV1Interface { return c.classes.StorageV1() }

// A View observes the same State as a controller, and only reads.
func TestViewObservesLikeTheController(t *testing.T) {
	p := storing(2, "2Gi")
	p.Spec.Networks = []v1.Pod2Network{{Name: "blue"}, {Name: "absent"}}
	wantsAddresses(p)
	fast := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	service := &corev1.Service{ObjectMeta: metaOf("web-blue"), Spec: corev1.ServiceSpec{ClusterIP: "None"}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metaOf("web-blue-0"), AddressType: discoveryv1.AddressTypeIPv4}
	service.Labels, slice.Labels = map[string]string{v1.Pod2Label: "web"}, map[string]string{v1.Pod2Label: "web"}
	w := newWorld(t, p, newPod2("db", 1, "blue"), newNetwork("blue"), newNetwork("green"), newBlock("blue", "10.1.0.9 db-3 Reserved Pod2/db"),
		replica("web-0 on=blue"), newPod("web-1 of=StatefulSet/web"), newPod("other"), claimOf("data-web-0", "0"), service, slice)
	if err := w.informers.Classes.Informer().GetIndexer().Add(fast); err != nil {
		t.Fatal(err)
	}
	want, _, err := w.r.kinds.pod2.observe(Key{KindPod2, ns, "web"})
	if err != nil {
		t.Fatal(err)
	}
	wantNames, _, err := w.r.kinds.dns.observe(Key{KindDNS, ns, "web"})
	if err != nil {
		t.Fatal(err)
	}
	clients := Clients{Kube: withClasses{w.clients.Kube, kubefake.NewClientset(fast)}, Sample: w.clients.Sample}
	view, err := Look(t.Context(), clients, now, stored[*v1.Pod2](w, "web"), nil)
	if err != nil || view.Assumed != nil {
		t.Fatal(err, view.Assumed)
	}
	for _, call := range w.calls {
		if !strings.HasPrefix(call, "get ") && !strings.HasPrefix(call, "list ") {
			t.Errorf("it calls %s", call)
		}
	}
	for i, pod := range view.Pod2.Pods {
		slim, _ := SlimPod(pod)
		view.Pod2.Pods[i] = slim.(*corev1.Pod)
	}
	view.DNS.Pods = view.Pod2.Pods
	view.Pod2.Facts, want.Facts, view.DNS.Facts, wantNames.Facts = nil, nil, nil, nil // only save time
	requireSameFields(t, view.Pod2, want)
	requireSameFields(t, view.DNS, wantNames)
}

// A user who may read only the objects of a namespace that Pod2 writes gets a State, too.
func TestViewWithFewRights(t *testing.T) {
	p := newPod2("web", 1, "blue")
	p.Spec.VolumeClaimTemplates = storing(1, "2Gi").Spec.VolumeClaimTemplates
	wantsAddresses(p)
	w := newWorld(t, p, newPod2("db", 1, "blue"), newNetwork("blue"), newBlock("blue", "10.1.0.9 db-3 Reserved Pod2/db"), claimOf("data-web-0", "0"))
	forbidden := refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "ask an administrator")
	w.refuse = refusing("get pod2s db", forbidden)
	kube := kubefake.NewClientset()
	kube.PrependReactor("list", "storageclasses", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	view, err := Look(t.Context(), Clients{Kube: withClasses{w.clients.Kube, kube}, Sample: w.clients.Sample}, now, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := view.Pod2
	if len(state.Holders) != 1 || state.Holders[0].ScaledAway {
		t.Errorf("the holders are %+v", state.Holders)
	}
	if classes := state.StorageClasses; len(classes) != 1 || classes[0].Name != "fast" || !ptr.Deref(classes[0].AllowVolumeExpansion, false) || !says(view.Assumed, forbidden) {
		t.Errorf("the classes are %+v, assumed after: %v", classes, view.Assumed)
	}
}

// requireSameFields compares two States, and requires that each field has a value. A field
// that no world of the test fills would not be compared.
func requireSameFields(t *testing.T, got, want any) {
	t.Helper()
	for i := range reflect.TypeOf(want).NumField() {
		name := reflect.TypeOf(want).Field(i).Name
		got, want := reflect.ValueOf(got).Field(i), reflect.ValueOf(want).Field(i)
		for i := 0; got.Kind() == reflect.Slice && i < got.Len(); i++ {
			if object, ok := got.Index(i).Interface().(runtime.Object); ok {
				object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // only lists have it
			}
		}
		if name != "Now" && !equality.Semantic.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
		// Only a controller has these: it remembers them, or updates images of Sidecars.
		ofController := slices.Contains([]string{"Facts", "Steady", "Refused", "Unadoptable", "Names", "NumbersHeld", "Sidecars"}, name)
		if want.IsZero() && !ofController {
			t.Errorf("the controller observes no %s: add its object to the world of this test", name)
		}
	}
}
