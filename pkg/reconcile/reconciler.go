// Package reconcile is the one room that touches the API: for each kind it
// observes (listers to a State), has a pure package decide (State to a Plan) and
// applies (Plan to calls), one file a kind.
package reconcile

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/client-go/informers/apps/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	nadinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/k8scnicncfio/v1"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/samplecrd/v1"
	stableinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/stable/v1"
	samplelisters "github.com/pod2/pod2/pkg/client/listers/samplecrd/v1"
)

// Clients write, and read live where a precondition demands it.
type Clients struct {
	Kube   kubernetes.Interface
	Sample versioned.Interface
}

// Informers feed the listers that observe reads. Pods is filtered by
// samplecrd.k8s.io/managed=true, Revisions, Claims, Services and EndpointSlices by the existence of
// samplecrd.k8s.io/pod2, Jobs by that of stable.example.com/crontab, Agents by their namespace and
// AgentSelector. Definitions are of a kind that the cluster may not have. Agents is nil where Settings name no namespace of agents. Nodes, if there are no
// Agents, and ServiceCIDRs may be nil: then Networks do not keep off what they say.
type Informers struct {
	Networks       sampleinformers.NetworkInformer
	Blocks         sampleinformers.AddressBlockInformer
	Pod2s          sampleinformers.Pod2Informer
	Pods           coreinformers.PodInformer
	StatefulSets   v1.StatefulSetInformer
	Revisions      v1.ControllerRevisionInformer
	Claims         coreinformers.PersistentVolumeClaimInformer
	Classes        storageinformers.StorageClassInformer
	CronTabs       stableinformers.CronTabInformer
	CronJobs       batchinformers.CronJobInformer
	Jobs           batchinformers.JobInformer
	Services       coreinformers.ServiceInformer
	EndpointSlices discoveryinformers.EndpointSliceInformer
	VNIs           sampleinformers.VNIInformer
	Definitions    nadinformers.NetworkAttachmentDefinitionInformer
	Nodes          coreinformers.NodeInformer
	Agents         coreinformers.PodInformer
	ServiceCIDRs   networkinginformers.ServiceCIDRInformer
}

// Reconciler syncs keys. It is safe for many goroutines, as long as no key is in
// two of them at once.
type Reconciler struct {
	clients  Clients
	recorder record.EventRecorder
	clock    clock.PassiveClock

	networks     samplelisters.NetworkLister
	pod2s        samplelisters.Pod2Lister
	pods         corelisters.PodLister
	statefulSets appslisters.StatefulSetLister

	blockIndex, podIndex, pod2Index cache.Indexer

	informers Informers
	written   *written
	ledgers   *ledgers
	over      *over
	outages   *outages
	found     *found[*corev1.Pod]
	// foundClaims are those that have the name of one of ours and not our label.
	foundClaims *found[*corev1.PersistentVolumeClaim]
	refused     *refused
	names       *batches
	counts      *batches
	releases    *batches
	runs        *batches
	services    owned[*corev1.Service]
	slices      owned[*discoveryv1.EndpointSlice]
	definitions owned[*nadv1.NetworkAttachmentDefinition]
	installed   *installed
	cluster     *cluster
	settings    Settings
}

// Settings are what nothing in the cluster says.
type Settings struct {
	// Namespace to serve, which is what the informers of namespaced kinds show; empty
	// for all.
	Namespace string
	// UnderlayMTU is what the network of the nodes takes, in bytes: 1500 on most.
	UnderlayMTU int32
	// AgentNamespace has the pods of pod2-agent, of which Nodes tell; empty: Nodes are
	// left alone.
	AgentNamespace string
	// ClusterCIDRs are used by the cluster, as are those that its objects name.
	ClusterCIDRs []netip.Prefix
	// AllowedOverlaps are CIDRs within which Networks of type Overlay may overlap what
	// the cluster uses.
	AllowedOverlaps []netip.Prefix
}

// New registers its indexes with the informers; call it before they start.
func New(clients Clients, informers Informers, recorder record.EventRecorder, clock clock.PassiveClock, settings Settings) (*Reconciler, error) {
	indexes := []struct {
		informer cache.SharedIndexInformer
		indexers cache.Indexers
	}{
		{informers.Blocks.Informer(), cache.Indexers{byNetwork: blockNetwork, byPod: blockPods}},
		{informers.Pods.Informer(), cache.Indexers{byNetwork: podNetworks, byWaiting: waitingNetworks, byPod2: podPod2s}},
		{informers.Pod2s.Informer(), cache.Indexers{byNetwork: pod2Networks}},
		{informers.Revisions.Informer(), revisionIndexers},
		{informers.Claims.Informer(), claimIndexers},
	}
	for _, i := range indexes {
		if err := i.informer.AddIndexers(i.indexers); err != nil {
			return nil, fmt.Errorf("add indexes to an informer: %w", err)
		}
	}
	if err := informers.addCronTabIndexes(); err != nil {
		return nil, fmt.Errorf("add indexes to an informer: %w", err)
	}
	if err := informers.addEndpointsIndexes(); err != nil {
		return nil, fmt.Errorf("add indexes to an informer: %w", err)
	}
	if err := informers.addDefinitionIndexes(); err != nil {
		return nil, fmt.Errorf("add indexes to an informer: %w", err)
	}
	installed, err := watchInstalled(informers.Definitions.Informer())
	if err != nil {
		return nil, fmt.Errorf("learn whether the cluster has NetworkAttachmentDefinitions: %w", err)
	}
	stores := map[resource]versionedStore{
		networksResource:  informers.Networks.Informer().GetIndexer(),
		blocksResource:    informers.Blocks.Informer().GetIndexer(),
		pod2sResource:     informers.Pod2s.Informer().GetIndexer(),
		podsResource:      informers.Pods.Informer().GetIndexer(),
		revisionsResource: informers.Revisions.Informer().GetIndexer(),
		claimsResource:    informers.Claims.Informer().GetIndexer(),
		cronTabsResource:  informers.CronTabs.Informer().GetIndexer(),
		cronJobsResource:  informers.CronJobs.Informer().GetIndexer(),
		servicesResource:  informers.Services.Informer().GetIndexer(),
		slicesResource:    informers.EndpointSlices.Informer().GetIndexer(),

		vnisResource:        informers.VNIs.Informer().GetIndexer(),
		definitionsResource: informers.Definitions.Informer().GetIndexer(),
	}
	if settings.AgentNamespace != "" {
		if err := informers.addNodeIndexes(); err != nil {
			return nil, fmt.Errorf("add indexes to an informer: %w", err)
		}
		stores[nodesResource] = informers.Nodes.Informer().GetIndexer()
	}
	written := newWritten(clock, stores)
	return &Reconciler{
		clients: clients, recorder: recorder, clock: clock, informers: informers,
		networks:     informers.Networks.Lister(),
		pod2s:        informers.Pod2s.Lister(),
		pods:         informers.Pods.Lister(),
		statefulSets: informers.StatefulSets.Lister(),
		blockIndex:   informers.Blocks.Informer().GetIndexer(),
		podIndex:     informers.Pods.Informer().GetIndexer(),
		pod2Index:    informers.Pod2s.Informer().GetIndexer(),
		written:      written,
		ledgers:      newLedgers(clock),
		over:         newOver(),
		outages:      newOutages(clock),
		found:        newFoundPods(clock),
		foundClaims:  newFoundClaims(clock),
		refused:      newRefused(),
		names:        newBatches(clock, namesEvery),
		counts:       newBatches(clock, countsEvery),
		releases:     newBatches(clock, releasesEvery),
		runs:         newBatches(clock, runsEvery),
		services: owned[*corev1.Service]{
			kind: "Service", resource: servicesResource, label: samplev1.Pod2Label, taken: newTaken[*corev1.Service](clock), written: written,
			in: func(namespace string) client[*corev1.Service] { return clients.Kube.CoreV1().Services(namespace) },
		},
		slices: owned[*discoveryv1.EndpointSlice]{
			kind: "EndpointSlice", resource: slicesResource, label: samplev1.Pod2Label, taken: newTaken[*discoveryv1.EndpointSlice](clock), written: written,
			in: func(namespace string) client[*discoveryv1.EndpointSlice] {
				return clients.Kube.DiscoveryV1().EndpointSlices(namespace)
			},
		},
		installed: installed, settings: settings, cluster: newCluster(informers, settings.ClusterCIDRs),
		definitions: owned[*nadv1.NetworkAttachmentDefinition]{
			kind: "NetworkAttachmentDefinition", resource: definitionsResource, written: written,
			in: func(namespace string) client[*nadv1.NetworkAttachmentDefinition] {
				return clients.Sample.K8sCniCncfIoV1().NetworkAttachmentDefinitions(namespace)
			},
		},
	}, nil
}

// countsEvery is how long the numbers of a status stay as they are once they were
// written, while nothing but numbers changes: when 2,000 replicas start within seconds,
// their Pod2 and its Networks tell so four times a second, not a hundred times.
const countsEvery = 250 * time.Millisecond

// releasesEvery is how long addresses of pods that are over stay in the ledger once
// some were taken back, as long as nobody waits for one. A write of a block is dear:
// 2,000 pods that go at once make a few dozen of them, not 800.
const releasesEvery = time.Second

// Check returns an error if only a restart makes syncs go on: etcd was restored to an
// older state under this process.
func (r *Reconciler) Check() error { return r.written.check() }

// Sync brings the world one step closer to what the object of the key asks for.
// It does nothing on a view that is older than its own last write.
func (r *Reconciler) Sync(ctx context.Context, key Key) (Result, error) {
	result, err := r.syncFresh(ctx, key)
	countStale(key.Kind, err)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// Nothing can be created in a namespace that is being deleted, and what is
		// in it goes. That is no failure, and each deletion is an event to look again.
		klog.FromContext(ctx).V(2).Info("The namespace is being deleted", "reason", err)
		r.over.forget(key)
		r.outages.ended(key, nil)
		return Result{}, nil
	}
	return result, err
}

func (r *Reconciler) syncFresh(ctx context.Context, key Key) (Result, error) {
	if why := r.written.ahead(key); why != "" {
		return Result{}, fmt.Errorf("sync %s: %s: %w", key, why, errOwnWrite)
	}
	result, err := r.sync(ctx, key)
	if err == nil {
		r.over.forget(key)
	}
	r.outages.ended(key, err)
	return result, err
}

func (r *Reconciler) sync(ctx context.Context, key Key) (Result, error) {
	switch key.Kind {
	case KindNetwork:
		return r.syncNetwork(ctx, key)
	case KindPod:
		return r.syncPod(ctx, key)
	case KindPod2:
		return r.syncPod2(ctx, key)
	case KindCronTab:
		return r.syncCronTab(ctx, key)
	case KindEndpoints:
		return r.syncEndpoints(ctx, key)
	case KindDefinition:
		return r.syncDefinition(ctx, key)
	case KindNode:
		return r.syncNode(ctx, key)
	}
	return Result{}, fmt.Errorf("sync %s: no such kind", key)
}
