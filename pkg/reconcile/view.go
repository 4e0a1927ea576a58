package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/pod2/dns"
)

// View is one view of a Pod2, for a program that runs once and writes nothing.
type View struct {
	Pod2   pod2.State
	DNS    dns.State
	Blocks []*v1.AddressBlock // of the namespace
	// Assumed is the error if the user may not list StorageClasses. Then each class is
	// assumed to exist and to allow expansion.
	Assumed error
}

// Look observes a Pod2 as a Reconciler would if the API server had this Pod2 and these
// Networks. It runs the same observers, on caches that read only the objects that the
// observers ask for. So the user needs few rights.
func Look(ctx context.Context, clients Clients, now time.Time, p *v1.Pod2, networks []*v1.Network) (View, error) {
	l := newLook(ctx, clients, now, p)
	err := l.pod2s.indexer.Add(p)
	for _, n := range networks {
		err = cmp.Or(err, l.networks.indexer.Add(n))
	}
	view := View{Blocks: l.blocks.in(p.Namespace)}
	if len(p.Spec.VolumeClaimTemplates) > 0 {
		l.classes.get("", "") // sets Assumed even if no PVC exists
	}
	var errPod2, errDNS error
	names := newFindings[pod2.Names]()
	view.Pod2, _, errPod2 = newPod2Kind(l.shared, names).observe(keyOf(KindPod2, p))
	view.DNS, _, errDNS = newDNSKind(l.shared, nil, names).observe(keyOf(KindDNS, p)) // only apply confirms that pods have terminated
	view.Assumed = l.classesErr
	if apierrors.IsForbidden(l.ownersErr) { // the owners keep their addresses
		l.ownersErr = nil
	}
	return view, cmp.Or(err, l.err, l.ownersErr, errPod2, errDNS)
}

// ReplicasOf reads the replicas of an owner of addresses. An owner that does not exist has
// none.
func ReplicasOf(ctx context.Context, clients Clients, namespace string, owner v1.AddressOwner) (network.Replicas, error) {
	l := newLook(ctx, clients, time.Time{}, &v1.Pod2{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
	owners := map[v1.AddressOwner]network.Replicas{}
	l.addOwner(owners, namespace, owner)
	return owners[owner], l.ownersErr
}

// look has the caches of one View, and the errors of their reads.
type look struct {
	*shared
	err, ownersErr, classesErr error
}

func newLook(ctx context.Context, clients Clients, now time.Time, p *v1.Pod2) *look {
	core, apps, sample := clients.Kube.CoreV1(), clients.Kube.AppsV1(), clients.Sample.SamplecrdV1()
	clock := instant{now}
	l := &look{shared: &shared{writers: newWriters(clients, newOwnWrites(clock), clock), clock: clock, podEvents: newPodEvents(clock)}}
	ns, in := p.Namespace, " of namespace "+p.Namespace
	l.caches = caches{
		networks:     getting(ctx, "Network", sample.Networks(ns), ns, &l.err),
		blocks:       listing[*v1.AddressBlock](ctx, "AddressBlocks"+in, sample.AddressBlocks(ns), "", nil, &l.err),
		pod2s:        getting(ctx, KindPod2, sample.Pod2s(ns), ns, &l.ownersErr),
		pods:         listing(ctx, "pods"+in, core.Pods(ns), "", pod2sOfPod, &l.err),
		statefulSets: getting(ctx, "StatefulSet", apps.StatefulSets(ns), ns, &l.ownersErr),
		revisions: listing(ctx, "ControllerRevisions of Pod2 "+pathOf(p), apps.ControllerRevisions(ns), v1.Pod2Label+"="+p.Name,
			labelledPod2[*appsv1.ControllerRevision], &l.err),
		claims: listing(ctx, "PersistentVolumeClaims"+in, core.PersistentVolumeClaims(ns), "", pod2sOfClaim, &l.err),
		// The controller finds objects of other owners when it creates its own.
		services: listing(ctx, "Services"+in, core.Services(ns), "", namedAfter[*corev1.Service](p), &l.err),
		slices:   listing(ctx, "EndpointSlices"+in, clients.Kube.DiscoveryV1().EndpointSlices(ns), "", namedAfter[*discoveryv1.EndpointSlice](p), &l.err),
	}
	// The view is about the spec of the Pod2. Images of Sidecars reach its replicas at other
	// times.
	l.sidecars = reader[*v1.Sidecar]{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	l.classes = asked(func(name string) ([]*storagev1.StorageClass, error) {
		classes, err := List[*storagev1.StorageClass](ctx, "StorageClasses", clients.Kube.StorageV1().StorageClasses(), "")
		if !apierrors.IsForbidden(err) {
			return classes, err
		}
		l.classesErr = errors.Unwrap(err)
		return []*storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: name}, AllowVolumeExpansion: ptr.To(true)}}, nil
	}, nil, &l.err)
	return l
}

// namedAfter indexes objects with the name of an object of the Pod2 by this Pod2, and all
// others by their label.
func namedAfter[T metav1.Object](p *v1.Pod2) func(T) []string {
	return func(object T) []string {
		if strings.HasPrefix(object.GetName(), p.Name+"-") {
			return []string{pathOf(p)}
		}
		return labelledPod2(object)
	}
}

// instant is a clock that always shows the same time.
type instant struct{ time.Time }

func (i instant) Now() time.Time                  { return i.Time }
func (i instant) Since(t time.Time) time.Duration { return i.Sub(t) }

// lazy is a cache that reads the objects that it does not have.
type lazy[T metav1.Object] struct {
	cache.Indexer
	read func(name string) ([]T, error)
	err  *error // the first one
}

// asked returns a reader of a lazy cache. pod2s is its index by Pod2, or nil.
func asked[T metav1.Object](read func(name string) ([]T, error), pod2s func(T) []string, err *error) reader[T] {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	if pod2s != nil {
		indexers[byPod2] = index(pod2s)
	}
	return reader[T]{&lazy[T]{cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers), read, err}}
}

// getting returns a cache that reads the objects one by one.
func getting[T metav1.Object](ctx context.Context, kind string, from getter[T], namespace string, err *error) reader[T] {
	return asked(func(name string) ([]T, error) {
		object, err := Get(ctx, kind, from, namespace, name)
		if err == nil {
			return []T{object}, nil
		}
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, err
	}, nil, err)
}

// listing returns a cache that reads all objects at once.
func listing[T metav1.Object, L runtime.Object](ctx context.Context, which string, from lister[L], selector string, pod2s func(T) []string, err *error) reader[T] {
	listed := false
	return asked(func(string) ([]T, error) {
		if listed {
			return nil, nil
		}
		listed = true
		return List[T](ctx, which, from, selector)
	}, pod2s, err)
}

func (l *lazy[T]) GetByKey(key string) (any, bool, error) {
	object, exists, err := l.Indexer.GetByKey(key)
	if exists {
		return object, exists, err
	}
	_, name, _ := cache.SplitMetaNamespaceKey(key)
	l.fill(name)
	return l.Indexer.GetByKey(key)
}

func (l *lazy[T]) ByIndex(name, value string) ([]any, error) {
	l.fill("")
	return l.Indexer.ByIndex(name, value)
}

func (l *lazy[T]) fill(name string) {
	objects, err := l.read(name)
	for _, object := range objects {
		err = cmp.Or(err, l.Add(object))
	}
	*l.err = cmp.Or(*l.err, err)
}

// Get reads an object. An error names it.
func Get[T any](ctx context.Context, kind string, from getter[T], namespace, name string) (T, error) {
	object, err := from.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return object, fmt.Errorf("get %s %s: %w", kind, path(namespace, name), err)
	}
	return object, nil
}

// List reads the objects that a label selector selects, in name order. An error says which.
func List[T metav1.Object, L runtime.Object](ctx context.Context, which string, from lister[L], selector string) ([]T, error) {
	list, err := from.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the %s: %w", which, err)
	}
	objects := make([]T, 0, meta.LenList(list))
	err = meta.EachListItem(list, func(item runtime.Object) error {
		objects = append(objects, item.(T))
		return nil
	})
	slices.SortStableFunc(objects, plan.ByName)
	return objects, err
}
