package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// View observes as a Reconciler does, for a program that runs once and writes nothing. Its
// caches have no informers: it fills them with the objects that it reads. So its user needs
// the right to read only the objects that concern one Pod2.
type View struct {
	*shared
	pod2    *pod2Kind
	dns     *dnsKind
	clients Clients
	// Assumed is the error if the user may not list StorageClasses. Then each class is
	// assumed to exist and to allow expansion.
	Assumed error
}

// NewView returns an empty View at this time.
func NewView(clients Clients, now time.Time) *View {
	clock := instant{now}
	pods := newUnwatchedPods(clock)
	s := &shared{
		caches: caches{
			networks:     reader[*v1.Network]{newStore(nil)},
			blocks:       reader[*v1.AddressBlock]{newStore(nil)},
			pod2s:        reader[*v1.Pod2]{newStore(nil)},
			pods:         reader[*corev1.Pod]{newStore(index(pod2sOfPod))},
			statefulSets: reader[*appsv1.StatefulSet]{newStore(nil)},
			revisions:    reader[*appsv1.ControllerRevision]{newStore(index(labelledPod2[*appsv1.ControllerRevision]))},
			claims:       reader[*corev1.PersistentVolumeClaim]{newStore(index(pod2sOfClaim))},
			classes:      reader[*storagev1.StorageClass]{newStore(nil)},
			services:     reader[*corev1.Service]{newStore(index(labelledPod2[*corev1.Service]))},
			slices:       reader[*discoveryv1.EndpointSlice]{newStore(index(labelledPod2[*discoveryv1.EndpointSlice]))},
		},
		writers: newWriters(clients, newOwnWrites(clock), pods, clock),
		live:    newLive(clients, pods, newConfirmedOver()), clock: clock, names: newFindings[pod2.Names](),
	}
	return &View{shared: s, pod2: newPod2Kind(s), dns: newDNSKind(s), clients: clients}
}

// newStore returns a cache that finds objects by their Pod2, or by name alone.
func newStore(pod2s cache.IndexFunc) cache.Indexer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	if pod2s != nil {
		indexers[byPod2] = pod2s
	}
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
}

// instant is a clock that always shows the same time.
type instant struct{ time.Time }

func (i instant) Now() time.Time                  { return i.Time }
func (i instant) Since(t time.Time) time.Duration { return i.Sub(t) }

// Pod2 returns the States that the controller would observe of a Pod2 and of the DNS names
// of its replicas, if the API server had this Pod2 and these Networks.
func (v *View) Pod2(ctx context.Context, p *v1.Pod2, networks []*v1.Network) (pod2.State, dns.State, error) {
	v.pod2s.add(p)
	for _, n := range networks {
		v.networks.add(n)
	}
	for _, read := range v.reads(p) {
		if err := read(ctx); err != nil {
			return pod2.State{}, dns.State{}, err
		}
	}
	state, _, err := v.pod2.observe(keyOf(KindPod2, p))
	names, _, errNames := v.dns.observe(keyOf(KindDNS, p))
	return state, names, errors.Join(err, errNames)
}

// Blocks returns the AddressBlocks of a namespace that the View has read.
func (v *View) Blocks(namespace string) []*v1.AddressBlock { return v.blocks.in(namespace) }

// reads returns the reads of everything that concerns a Pod2.
func (v *View) reads(p *v1.Pod2) []func(context.Context) error {
	ns, within, kube := p.Namespace, " of namespace "+p.Namespace, v.clients.Kube
	reads := []func(context.Context) error{listing("AddressBlocks"+within, v.live.blocks(ns), "", v.blocks.add)}
	for _, name := range pod2.Networks(p) {
		if v.networks.get(ns, name) == nil {
			reads = append(reads, func(ctx context.Context) error {
				return get(ctx, "Network", v.live.networks(ns), ns, name, v.networks.add)
			})
		}
	}
	reads = append(reads,
		func(ctx context.Context) error { return v.readHolders(ctx, p) },
		listing("ControllerRevisions of Pod2 "+pathOf(p), kube.AppsV1().ControllerRevisions(ns), v1.Pod2Label+"="+p.Name, v.revisions.add),
		listing("pods"+within, v.live.pods(ns), "", v.pods.add),
	)
	if len(p.Spec.VolumeClaimTemplates) > 0 {
		reads = append(reads,
			listing("PersistentVolumeClaims"+within, kube.CoreV1().PersistentVolumeClaims(ns), "", v.claims.add),
			func(ctx context.Context) error { return v.readClasses(ctx, ns) },
		)
	}
	return append(reads,
		// The controller finds Services and EndpointSlices of other owners when it creates its own.
		listing("Services"+within, kube.CoreV1().Services(ns), "", func(s *corev1.Service) {
			v.services.add(s)
			v.writeServices.unwatched.remember(s)
		}),
		listing("EndpointSlices"+within, kube.DiscoveryV1().EndpointSlices(ns), "", func(s *discoveryv1.EndpointSlice) {
			v.slices.add(s)
			v.writeSlices.unwatched.remember(s)
		}),
	)
}

// readClasses makes Assumed classes if the user may not list any.
func (v *View) readClasses(ctx context.Context, namespace string) error {
	err := listing("StorageClasses", v.clients.Kube.StorageV1().StorageClasses(), "", v.classes.add)(ctx)
	if !apierrors.IsForbidden(err) {
		return err
	}
	v.Assumed = err
	for _, claim := range v.claims.in(namespace) {
		v.classes.add(&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: ptr.Deref(claim.Spec.StorageClassName, "")}, AllowVolumeExpansion: ptr.To(true),
		})
	}
	return nil
}

// readHolders reads the owners of the addresses that a Pod2 asks for. If the user may not,
// the owners keep their addresses.
func (v *View) readHolders(ctx context.Context, p *v1.Pod2) error {
	for _, h := range v.pod2.holders(p) {
		if _, err := v.Replicas(ctx, p.Namespace, h.Owner); err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

// Replicas reads the replicas of an owner of addresses. An owner that does not exist has
// none.
func (v *View) Replicas(ctx context.Context, namespace string, owner v1.AddressOwner) (network.Replicas, error) {
	var err error
	owners := map[v1.AddressOwner]network.Replicas{}
	if v.addOwner(owners, namespace, owner); len(owners) > 0 {
		return owners[owner], nil
	}
	switch owner.Kind {
	case KindPod2:
		err = get(ctx, KindPod2, v.live.pod2s(namespace), namespace, owner.Name, v.pod2s.add)
	case "StatefulSet":
		err = get(ctx, "StatefulSet", v.clients.Kube.AppsV1().StatefulSets(namespace), namespace, owner.Name, v.statefulSets.add)
	}
	v.addOwner(owners, namespace, owner)
	return owners[owner], err
}

// add puts an object into the cache of a View.
func (c reader[T]) add(object T) { _ = c.indexer.Add(object) }

// Get reads an object. An error names it.
func Get[T any](ctx context.Context, kind string, from getter[T], namespace, name string) (T, error) {
	object, err := from.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return object, fmt.Errorf("get %s %s: %w", kind, path(namespace, name), err)
	}
	return object, nil
}

// get reads an object that may not exist.
func get[T any](ctx context.Context, kind string, from getter[T], namespace, name string, add func(T)) error {
	object, err := Get(ctx, kind, from, namespace, name)
	if err == nil {
		add(object)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
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

// listing returns a function that reads objects as List does, and adds each.
func listing[T metav1.Object, L runtime.Object](which string, from lister[L], selector string, add func(T)) func(context.Context) error {
	return func(ctx context.Context) error {
		objects, err := List[T](ctx, which, from, selector)
		for _, object := range objects {
			add(object)
		}
		return err
	}
}
