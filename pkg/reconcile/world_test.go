package reconcile

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	samplefake "github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions"
	"github.com/pod2/pod2/pkg/pod2"
)

// world is a Reconciler between a server and caches. The server is the fake
// clientset's, made to enforce what that does not: resourceVersions on updates,
// the preconditions of patches and deletions, pages, and that a status is
// written apart. The caches show the server as it was at the last catchUp.
type world struct {
	t     testing.TB
	r     *Reconciler
	clock *clocktesting.FakePassiveClock

	mu       sync.Mutex
	calls    []string // as render has them, and the events that were recorded
	version  int      // the last resourceVersion given
	refuse   func(call string) error
	answer   func(runtime.Object) // changes what is created or updated, as an admission policy does
	pageSize int                  // of lists; 0: as asked for

	kube, sample clienttesting.ObjectTracker
	clients      Clients
	informers    Informers
	caches       []cacheOf
}

type cacheOf struct {
	store   cache.Store
	tracker clienttesting.ObjectTracker
	gvr     schema.GroupVersionResource
	gvk     schema.GroupVersionKind
	example reflect.Type // nil: a pod, in the namespace of agents
}

const agentNS = "pod2-agent"

// namespace is where tests have the objects: none, for those of the whole cluster.
func (c cacheOf) namespace() string {
	switch {
	case c.gvk.Kind == "VNI", c.gvk.Kind == "Node", c.gvk.Kind == "ServiceCIDR":
		return ""
	case c.example == nil:
		return agentNS
	}
	return ns
}

// newWorld has the objects on the server and in the caches, with the
// resourceVersions 101, 102 and so on, and the revisions of Pod2s.
func newWorld(t testing.TB, objects ...runtime.Object) *world {
	t.Helper()
	kube, sample := kubefake.NewSimpleClientset(), samplefake.NewSimpleClientset()
	w := &world{
		t: t, clock: clocktesting.NewFakePassiveClock(now), version: 100,
		kube: kube.Tracker(), sample: sample.Tracker(),
	}
	kube.PrependReactor("*", "*", w.react(w.kube))
	sample.PrependReactor("*", "*", w.react(w.sample))
	core, crds := kubeinformers.NewSharedInformerFactory(kube, 0), sampleinformers.NewSharedInformerFactory(sample, 0)
	agents := kubeinformers.NewSharedInformerFactory(kube, 0).Core().V1().Pods()
	informers := Informers{
		Networks: crds.Samplecrd().V1().Networks(), Blocks: crds.Samplecrd().V1().AddressBlocks(), Pod2s: crds.Samplecrd().V1().Pod2s(),
		Pods: core.Core().V1().Pods(), StatefulSets: core.Apps().V1().StatefulSets(), Revisions: core.Apps().V1().ControllerRevisions(),
		Claims: core.Core().V1().PersistentVolumeClaims(), Classes: core.Storage().V1().StorageClasses(),
		CronTabs: crds.Stable().V1().CronTabs(), CronJobs: core.Batch().V1().CronJobs(), Jobs: core.Batch().V1().Jobs(),
		Services: core.Core().V1().Services(), EndpointSlices: core.Discovery().V1().EndpointSlices(),
		VNIs: crds.Samplecrd().V1().VNIs(), Definitions: crds.K8sCniCncfIo().V1().NetworkAttachmentDefinitions(),
		Nodes: core.Core().V1().Nodes(), Agents: agents, ServiceCIDRs: core.Networking().V1().ServiceCIDRs(),
	}
	samples := schema.GroupVersion{Group: v1.GroupVersion.Group, Version: v1.GroupVersion.Version}
	stable := schema.GroupVersion{Group: stablev1.GroupVersion.Group, Version: stablev1.GroupVersion.Version}
	w.caches = []cacheOf{
		{informers.Networks.Informer().GetIndexer(), w.sample, samples.WithResource("networks"), samples.WithKind("Network"), reflect.TypeFor[*v1.Network]()},
		{informers.Blocks.Informer().GetIndexer(), w.sample, samples.WithResource("addressblocks"), samples.WithKind("AddressBlock"), reflect.TypeFor[*v1.AddressBlock]()},
		{informers.Pod2s.Informer().GetIndexer(), w.sample, samples.WithResource("pod2s"), samples.WithKind("Pod2"), reflect.TypeFor[*v1.Pod2]()},
		{informers.Pods.Informer().GetIndexer(), w.kube, corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), reflect.TypeFor[*corev1.Pod]()},
		{informers.StatefulSets.Informer().GetIndexer(), w.kube, appsv1.SchemeGroupVersion.WithResource("statefulsets"), appsv1.SchemeGroupVersion.WithKind("StatefulSet"), reflect.TypeFor[*appsv1.StatefulSet]()},
		{informers.Revisions.Informer().GetIndexer(), w.kube, appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), reflect.TypeFor[*appsv1.ControllerRevision]()},
		{informers.Claims.Informer().GetIndexer(), w.kube, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), reflect.TypeFor[*corev1.PersistentVolumeClaim]()},
		{informers.CronTabs.Informer().GetIndexer(), w.sample, stable.WithResource("crontabs"), stable.WithKind("CronTab"), reflect.TypeFor[*stablev1.CronTab]()},
		{informers.CronJobs.Informer().GetIndexer(), w.kube, batchv1.SchemeGroupVersion.WithResource("cronjobs"), batchv1.SchemeGroupVersion.WithKind("CronJob"), reflect.TypeFor[*batchv1.CronJob]()},
		{informers.Jobs.Informer().GetIndexer(), w.kube, batchv1.SchemeGroupVersion.WithResource("jobs"), batchv1.SchemeGroupVersion.WithKind("Job"), reflect.TypeFor[*batchv1.Job]()},
		{informers.Services.Informer().GetIndexer(), w.kube, corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithKind("Service"), reflect.TypeFor[*corev1.Service]()},
		{informers.VNIs.Informer().GetIndexer(), w.sample, samples.WithResource("vnis"), samples.WithKind("VNI"), reflect.TypeFor[*v1.VNI]()},
		{informers.Definitions.Informer().GetIndexer(), w.sample, schema.GroupVersion(nadv1.GroupVersion).WithResource("network-attachment-definitions"), schema.GroupVersion(nadv1.GroupVersion).WithKind("NetworkAttachmentDefinition"), reflect.TypeFor[*nadv1.NetworkAttachmentDefinition]()},
		{informers.EndpointSlices.Informer().GetIndexer(), w.kube, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), reflect.TypeFor[*discoveryv1.EndpointSlice]()},
		{informers.Nodes.Informer().GetIndexer(), w.kube, corev1.SchemeGroupVersion.WithResource("nodes"), corev1.SchemeGroupVersion.WithKind("Node"), reflect.TypeFor[*corev1.Node]()},
		{informers.ServiceCIDRs.Informer().GetIndexer(), w.kube, networkingv1.SchemeGroupVersion.WithResource("servicecidrs"), networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), reflect.TypeFor[*networkingv1.ServiceCIDR]()},
		{agents.Informer().GetIndexer(), w.kube, corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), nil},
	}
	var err error
	w.clients, w.informers = Clients{Kube: kube, Sample: sample}, informers
	if w.r, err = New(w.clients, informers, recorder{w}, w.clock, Settings{UnderlayMTU: 1500, AgentNamespace: agentNS}); err != nil {
		t.Fatal(err)
	}
	w.r.kinds.multus.installed.synced = func() bool { return true } // no informer runs
	w.add(objects...)
	for _, obj := range objects {
		if p, ok := obj.(*v1.Pod2); ok {
			w.addRevision(p)
		}
	}
	w.catchUp()
	return w
}

// speakTo has the Reconciler use other clients.
func (w *world) speakTo(clients Clients) {
	w.r.writers = newWriters(clients, w.r.written, w.r.live.found, w.clock)
	w.r.live = newLive(clients, w.r.live.found, w.r.live.over)
}

// addRevision has the revision of a Pod2 on the server, as all but its first sync
// find it.
func (w *world) addRevision(p *v1.Pod2) {
	w.t.Helper()
	revision := pod2.Diff(pod2.State{Pod2: p}).CreateRevision
	if revision == nil { // a Pod2 that is being deleted
		return
	}
	revision.UID, revision.ResourceVersion = "uid-of-revision", "100"
	if err := w.kube.Add(revision); err != nil {
		w.t.Fatalf("add the revision of %s: %v", p.Name, err)
	}
}

// selectedBy are the labels without which an informer does not show an object.
var selectedBy = map[string]string{"Pod": v1.ManagedLabel, "Service": v1.Pod2Label, "EndpointSlice": v1.Pod2Label}

// add puts objects on the server, behind the back of the caches.
func (w *world) add(objects ...runtime.Object) {
	w.t.Helper()
	for _, obj := range objects {
		object(obj).SetResourceVersion(w.next())
		c := w.cacheOf(obj)
		if err := c.tracker.Create(c.gvr, obj, c.namespace()); err != nil {
			w.t.Fatalf("add %T: %v", obj, err)
		}
	}
}

func (w *world) cacheOf(obj runtime.Object) cacheOf {
	example := reflect.TypeOf(obj)
	if pod, ok := obj.(*corev1.Pod); ok && pod != nil && pod.Namespace == agentNS {
		example = nil
	}
	return w.caches[slices.IndexFunc(w.caches, func(c cacheOf) bool { return c.example == example })]
}

// change replaces objects on the server, behind the back of the caches.
func (w *world) change(objects ...runtime.Object) {
	w.t.Helper()
	for _, obj := range objects {
		object(obj).SetResourceVersion(w.next())
		c := w.cacheOf(obj)
		if err := c.tracker.Update(c.gvr, obj, c.namespace()); err != nil {
			w.t.Fatalf("change %T: %v", obj, err)
		}
	}
}

// remove takes an object from the server, behind the back of the caches.
func (w *world) remove(obj runtime.Object) {
	w.t.Helper()
	c := w.cacheOf(obj)
	if err := c.tracker.Delete(c.gvr, c.namespace(), object(obj).GetName()); err != nil {
		w.t.Fatalf("remove %T: %v", obj, err)
	}
}

func podOf(w *world, name string) *corev1.Pod { return stored[*corev1.Pod](w, name) }

// stored is an object as the server has it.
func stored[T runtime.Object](w *world, name string) T {
	w.t.Helper()
	var example T
	c := w.cacheOf(example)
	obj, err := c.tracker.Get(c.gvr, c.namespace(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return obj.(T)
}

// catchUp makes the caches show the server as it is, by the labels that informers
// select on; those of the resources that are named lag behind.
func (w *world) catchUp(lagging ...string) {
	w.t.Helper()
	for _, c := range w.caches {
		if slices.Contains(lagging, c.gvr.Resource) {
			continue
		}
		list, err := c.tracker.List(c.gvr, c.gvk, c.namespace())
		if err != nil {
			w.t.Fatalf("list %s: %v", c.gvr, err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			w.t.Fatalf("read a list of %s: %v", c.gvr, err)
		}
		var shown []any
		for _, obj := range objects {
			label, filtered := selectedBy[c.gvk.Kind]
			if c.example == nil {
				label, _, _ = strings.Cut(AgentSelector, "=")
			}
			if _, has := object(obj).GetLabels()[label]; filtered && !has {
				continue
			}
			if _, claim := obj.(*corev1.PersistentVolumeClaim); claim && object(obj).GetLabels()[v1.Pod2Label] == "" {
				continue
			}
			var slim any
			if c.example == nil {
				slim, _ = SlimAgent(obj)
			} else {
				slim, _ = SlimPod(obj)
			}
			slim, _ = SlimStatefulSet(slim)
			slim, _ = SlimJob(slim)
			slim, _ = SlimNode(slim)
			shown = append(shown, slim)
		}
		if err := c.store.Replace(shown, strconv.Itoa(w.version)); err != nil {
			w.t.Fatalf("fill the cache of %s: %v", c.gvr, err)
		}
	}
}

// sync syncs once and returns the calls that it took, the keys that it wakes, and the
// events, one a line.
func (w *world) sync(kind, name string) (string, error) {
	w.calls = nil
	key := Key{kind, ns, name}
	if kind == KindNode {
		key.Namespace = ""
	}
	result, err := w.r.Sync(klog.NewContext(w.t.Context(), klog.Logger{}), key)
	events := slices.IndexFunc(w.calls, func(call string) bool { return strings.HasPrefix(call, "event on ") })
	if events < 0 {
		events = len(w.calls)
	}
	for _, woken := range result.Wakes {
		w.calls = slices.Insert(w.calls, events, "wakes "+woken.Kind+" "+woken.Name)
	}
	return strings.Join(w.calls, "\n"), err
}

// syncWoken syncs a key and those that it wakes, whatever fails.
func (w *world) syncWoken(key Key) {
	result, _ := w.r.Sync(klog.NewContext(w.t.Context(), klog.Logger{}), key)
	for _, woken := range result.Wakes {
		w.syncWoken(woken)
	}
}

func (w *world) next() string {
	w.version++
	return strconv.Itoa(w.version)
}
