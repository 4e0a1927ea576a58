package reconcile

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/test/apiserver"
)

// world is a Reconciler between a server and caches. The caches show the server as of the
// last catchUp.
type world struct {
	t      testing.TB
	r      *Reconciler
	clock  *clocktesting.FakePassiveClock
	server *apiserver.Server
	caches []cacheOf

	mu     sync.Mutex
	calls  []string // rendered, with the recorded events
	refuse func(call string) error
	answer func(runtime.Object) // changes written objects, like an admission policy

	clients   Clients
	informers Informers
}

type cacheOf struct {
	store     cache.Store
	resource  *apiserver.Resource
	namespace string
}

// newWorld puts the objects on the server and in the caches, with the resourceVersions
// 101, 102 and so on, and adds the revisions of Pod2s.
func newWorld(t testing.TB, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(now), server: apiserver.NewServer()}
	w.server.Clock = w.clock.Now
	w.server.UID = func(obj apiserver.Object) types.UID { return types.UID("uid-of-" + obj.GetName()) }
	w.server.Break(apiserver.Fault{Answer: func(c *apiserver.Call) error {
		if w.refuse == nil {
			return nil
		}
		return w.refuse(render(c))
	}})
	w.server.Admit(apiserver.Rule{Mutate: func(obj apiserver.Object) {
		if w.answer != nil {
			w.answer(obj)
		}
	}})
	config := apiserver.Config(w)
	kube, sample := kubernetes.NewForConfigOrDie(config), versioned.NewForConfigOrDie(config)
	core, crds := kubeinformers.NewSharedInformerFactory(kube, 0), sampleinformers.NewSharedInformerFactory(sample, 0)
	informers := Informers{
		Networks: crds.Samplecrd().V1().Networks(), Blocks: crds.Samplecrd().V1().AddressBlocks(), Pod2s: crds.Samplecrd().V1().Pod2s(),
		Pods: core.Core().V1().Pods(), StatefulSets: core.Apps().V1().StatefulSets(), Revisions: core.Apps().V1().ControllerRevisions(),
		Claims: core.Core().V1().PersistentVolumeClaims(), Classes: core.Storage().V1().StorageClasses(),
		CronTabs: crds.Stable().V1().CronTabs(), CronJobs: core.Batch().V1().CronJobs(), Jobs: core.Batch().V1().Jobs(),
		Services: core.Core().V1().Services(), EndpointSlices: core.Discovery().V1().EndpointSlices(),
		Sidecars: crds.Samplecrd().V1().Sidecars(), Histories: crds.Samplecrd().V1().AddressHistories(),
		VNIs: crds.Samplecrd().V1().VNIs(), Definitions: crds.K8sCniCncfIo().V1().NetworkAttachmentDefinitions(),
		Nodes: core.Core().V1().Nodes(), AddressSlices: crds.Samplecrd().V1().AddressSlices(), ServiceCIDRs: core.Networking().V1().ServiceCIDRs(),
	}
	for resource, informer := range map[string]cache.SharedIndexInformer{
		"networks": informers.Networks.Informer(), "addressblocks": informers.Blocks.Informer(), "pod2s": informers.Pod2s.Informer(),
		"pods": informers.Pods.Informer(), "statefulsets": informers.StatefulSets.Informer(), "controllerrevisions": informers.Revisions.Informer(),
		"persistentvolumeclaims": informers.Claims.Informer(), "crontabs": informers.CronTabs.Informer(), "cronjobs": informers.CronJobs.Informer(),
		"jobs": informers.Jobs.Informer(), "services": informers.Services.Informer(), "endpointslices": informers.EndpointSlices.Informer(),
		"sidecars": informers.Sidecars.Informer(), "addresshistories": informers.Histories.Informer(),
		"vnis": informers.VNIs.Informer(), "network-attachment-definitions": informers.Definitions.Informer(),
		"nodes": informers.Nodes.Informer(), "addressslices": informers.AddressSlices.Informer(), "servicecidrs": informers.ServiceCIDRs.Informer(),
	} {
		r := apiserver.ResourceNamed(resource)
		w.caches = append(w.caches, cacheOf{informer.GetIndexer(), r, r.Namespace()})
	}
	w.clients, w.informers = Clients{Kube: kube, Sample: sample}, informers
	var err error
	if w.r, err = New(w.clients, informers, recorder{w}, w.clock, Settings{}); err != nil {
		t.Fatal(err)
	}
	w.r.kinds.multus.definitionKind.synced = func() bool { return true } // no informer runs
	revisions := revisionsOf(objects)
	w.server.Skip(100 - len(revisions))
	w.add(revisions...)
	w.add(objects...)
	w.catchUp()
	return w
}

// speakTo makes the Reconciler use other clients.
func (w *world) speakTo(clients Clients) {
	w.r.writers, w.r.live = newWriters(clients, w.r.ownWrites, w.clock), newLive(clients)
	w.r.over.live, w.r.over.unwatched = w.r.live, w.r.writePods.unwatched
}

// revisionsOf returns the revisions of Pod2s, which exist after their first sync.
func revisionsOf(objects []runtime.Object) (revisions []runtime.Object) {
	for _, obj := range objects {
		if p, ok := obj.(*v1.Pod2); ok && p.DeletionTimestamp == nil {
			revision := pod2.Diff(pod2.State{Pod2: p}).CreateRevision
			revision.UID = "uid-of-revision"
			revisions = append(revisions, revision)
		}
	}
	return revisions
}

// selectedBy has the labels without which an informer does not show an object.
var selectedBy = map[string]string{"Pod": v1.ManagedLabel, "Service": v1.Pod2Label, "EndpointSlice": v1.Pod2Label}

// add puts objects on the server but not into the caches.
func (w *world) add(objects ...runtime.Object) {
	w.t.Helper()
	w.server.Lock()
	defer w.server.Unlock()
	for _, obj := range objects {
		c := w.cacheOf(obj)
		if w.server.Get(c.resource, c.namespace, object(obj).GetName()) != nil {
			w.t.Fatalf("add %T %s: it already exists", obj, object(obj).GetName())
		}
		w.put(c, obj)
	}
}

// change replaces objects on the server but not in the caches.
func (w *world) change(objects ...runtime.Object) {
	w.t.Helper()
	w.server.Lock()
	defer w.server.Unlock()
	for _, obj := range objects {
		w.put(w.cacheOf(obj), obj)
	}
}

func (w *world) put(c cacheOf, obj runtime.Object) {
	next := obj.DeepCopyObject().(apiserver.Object)
	next.SetNamespace(c.namespace)
	object(obj).SetResourceVersion(w.server.Put(apiserver.User, c.resource, next).GetResourceVersion())
}

// remove removes an object from the server but not from the caches.
func (w *world) remove(obj runtime.Object) {
	w.t.Helper()
	w.server.Lock()
	defer w.server.Unlock()
	c := w.cacheOf(obj)
	is := w.server.Get(c.resource, c.namespace, object(obj).GetName())
	if is == nil {
		w.t.Fatalf("remove %T %s: it does not exist", obj, object(obj).GetName())
	}
	w.server.Remove(apiserver.User, c.resource, is)
}

// cacheOf returns the cache that shows an object.
func (w *world) cacheOf(obj runtime.Object) cacheOf {
	r, namespace := resourceOf(reflect.TypeOf(obj)), object(obj).GetNamespace()
	i := slices.IndexFunc(w.caches, func(c cacheOf) bool { return c.resource == r && c.namespace == namespace })
	if i < 0 { // in the default namespace of tests
		i = slices.IndexFunc(w.caches, func(c cacheOf) bool { return c.resource == r && c.namespace == r.Namespace() })
	}
	return w.caches[i]
}

func resourceOf(kind reflect.Type) *apiserver.Resource {
	return apiserver.Resources[slices.IndexFunc(apiserver.Resources, func(r *apiserver.Resource) bool { return r.Kind == kind.Elem().Name() })]
}

// plain returns an object as a client gets it, free to change.
func plain(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return obj
}

func podOf(w *world, name string) *corev1.Pod { return stored[*corev1.Pod](w, name) }

// stored returns an object from the server.
func stored[T runtime.Object](w *world, name string) T {
	w.t.Helper()
	w.server.Lock()
	defer w.server.Unlock()
	r := resourceOf(reflect.TypeFor[T]())
	obj := w.server.Get(r, r.Namespace(), name)
	if obj == nil {
		w.t.Fatalf("%s %s does not exist", r.Kind, name)
	}
	return plain(obj).(T)
}

// catchUp makes the caches show the current server, with the labels that informers
// select. The caches of the named resources lag behind.
func (w *world) catchUp(lagging ...string) {
	w.t.Helper()
	w.server.Lock()
	defer w.server.Unlock()
	for _, c := range w.caches {
		if slices.Contains(lagging, c.resource.Resource) {
			continue
		}
		var shown []any
		for _, v := range w.server.All(c.resource, c.namespace) {
			obj := plain(v.Object)
			label, filtered := selectedBy[c.resource.Kind]
			if _, has := object(obj).GetLabels()[label]; filtered && !has {
				continue
			}
			if _, claim := obj.(*corev1.PersistentVolumeClaim); claim && object(obj).GetLabels()[v1.Pod2Label] == "" {
				continue
			}
			slim, _ := SlimPod(obj)
			slim, _ = SlimStatefulSet(slim)
			slim, _ = SlimJob(slim)
			slim, _ = SlimNode(slim)
			shown = append(shown, slim)
		}
		if err := c.store.Replace(shown, strconv.Itoa(w.server.Last())); err != nil {
			w.t.Fatalf("fill the cache of %s: %v", c.resource.Resource, err)
		}
	}
}

// sync syncs once and returns the calls that it made, the keys that it wakes, and the
// events, one a line.
func (w *world) sync(kind, name string) (string, error) {
	w.calls = nil
	result, err := w.r.Sync(klog.NewContext(w.t.Context(), klog.Logger{}), Key{kind, ns, name})
	events := slices.IndexFunc(w.calls, func(call string) bool { return strings.HasPrefix(call, "event on ") })
	if events < 0 {
		events = len(w.calls)
	}
	for _, woken := range result.Wakes {
		w.calls = slices.Insert(w.calls, events, "wakes "+woken.Kind+" "+woken.Name)
	}
	return strings.Join(w.calls, "\n"), err
}

// syncWoken syncs a key and the keys that it wakes, even after failures.
func (w *world) syncWoken(key Key) {
	result, _ := w.r.Sync(klog.NewContext(w.t.Context(), klog.Logger{}), key)
	for _, woken := range result.Wakes {
		w.syncWoken(woken)
	}
}

// next is an unused resourceVersion.
func (w *world) next() string {
	w.server.Lock()
	defer w.server.Unlock()
	return w.server.Skip(1)
}

func object(obj runtime.Object) metav1.Object {
	o, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return o
}
