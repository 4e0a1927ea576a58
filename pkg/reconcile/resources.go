package reconcile

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// resource names a resource that we watch or write. Its resourceVersions can be compared.
type resource string

const (
	networksResource      resource = "networks"
	blocksResource        resource = "addressblocks"
	pod2sResource         resource = "pod2s"
	podsResource          resource = "pods"
	statefulSetsResource  resource = "statefulsets"
	revisionsResource     resource = "controllerrevisions"
	claimsResource        resource = "persistentvolumeclaims"
	classesResource       resource = "storageclasses"
	cronTabsResource      resource = "crontabs"
	cronJobsResource      resource = "cronjobs"
	jobsResource          resource = "jobs"
	servicesResource      resource = "services"
	slicesResource        resource = "endpointslices"
	addressSlicesResource resource = "addressslices"
	historiesResource     resource = "addresshistories"
	sidecarsResource      resource = "sidecars"
	vnisResource          resource = "vnis"
	definitionsResource   resource = "network-attachment-definitions"
	nodesResource         resource = "nodes"
	serviceCIDRsResource  resource = "servicecidrs"
)

// row is one resource of the table.
type row struct {
	resource
	informer cache.SharedIndexInformer
	indexers cache.Indexers
	slim     cache.TransformFunc // the part of an object that the cache keeps; nil: all except managedFields
	wakes    []wake
	optional bool // the cluster may not have it
}

// wake says which keys an event of an object wakes, see Watch.
type wake struct {
	keys     func(obj any) []Key
	patience func(old, new any) time.Duration
	same     func(old, new any) bool
	changes  bool
}

// newRows returns the table of all watched resources: their indexes, and the keys that
// they wake.
func newRows(s *shared, a *addressSliceKind, h *historyKind, i Informers) []row {
	siblings := newSiblings()
	rows := []row{
		{networksResource, i.Networks.Informer(), cache.Indexers{byWire: index(wire)}, nil, []wake{
			{keys: waking(s.wokenByNetwork)}, {keys: waking(s.pod2sOn), same: sameForWorkloads}, {keys: waking(s.cronTabsOn), same: sameForWorkloads}, itself[*v1.Network](KindMultus), {keys: waking(s.othersOnWire), same: sameSpec},
		}, false},
		{blocksResource, i.Blocks.Informer(), cache.Indexers{byNetwork: index(networkOfBlock), byPrefix: index(prefixesOfBlock)}, siblings.entries, []wake{
			{keys: waking(s.wokenByBlock)}, {keys: waking(s.goingCronTabs)},
		}, false},
		{pod2sResource, i.Pod2s.Informer(), cache.Indexers{byNetwork: index(networksOfPod2)}, nil, []wake{
			{keys: waking(wokenByPod2)}, {keys: waking(s.waitingWithPod2), same: sameGeneration, changes: true}, itself[*v1.Pod2](KindDNS),
		}, false},
		{podsResource, i.Pods.Informer(), cache.Indexers{
			byNetwork: index(networksOfPod), byWaiting: index(networksWaitedFor), byPod2: index(pod2sOfPod), byCronTab: index(cronTabOf[*corev1.Pod]), byNode: index(nodeOfPod), bySidecar: index(sidecarsOfPod),
		}, siblings.slim, []wake{
			{keys: s.podChanged, patience: s.podPatience}, {keys: waking(dnsOfPod), same: sameNames}, {keys: waking(labelledCronTab[*corev1.Pod])}, {keys: waking(func(p *corev1.Pod) []Key { return keysOf(KindSidecar, sidecarsOfPod(p)) }), same: countedAlike},
		}, false},
		{statefulSetsResource, i.StatefulSets.Informer(), nil, SlimStatefulSet, []wake{
			{keys: waking(wokenByStatefulSet)}, {keys: waking(s.waitingWithSet), same: sameGeneration, changes: true},
		}, false},
		{revisionsResource, i.Revisions.Informer(), cache.Indexers{byPod2: index(labelledPod2[*appsv1.ControllerRevision])}, nil, []wake{
			{keys: waking(wakingPod2(KindPod2, labelledPod2[*appsv1.ControllerRevision]))},
		}, false},
		{claimsResource, i.Claims.Informer(), cache.Indexers{byPod2: index(pod2sOfClaim), byClass: index(classOfClaim)}, nil, []wake{
			{keys: waking(s.claimChanged), same: sameClaim},
		}, false},
		{classesResource, i.Classes.Informer(), nil, nil, []wake{{keys: waking(s.wokenByClass)}}, false},
		{cronTabsResource, i.CronTabs.Informer(), cache.Indexers{byNetwork: index(networksOfCronTab), byGoing: index(namespaceOfGoing)}, nil, []wake{itself[*stablev1.CronTab](KindCronTab)}, false},
		{cronJobsResource, i.CronJobs.Informer(), nil, nil, []wake{itself[*batchv1.CronJob](KindCronTab)}, false},
		{jobsResource, i.Jobs.Informer(), cache.Indexers{byCronTab: index(cronTabOf[*batchv1.Job])}, SlimJob, []wake{
			{keys: waking(labelledCronTab[*batchv1.Job])},
		}, false},
		{servicesResource, i.Services.Informer(), cache.Indexers{byPod2: index(labelledPod2[*corev1.Service])}, nil, []wake{
			{keys: waking(wakingPod2(KindDNS, labelledPod2[*corev1.Service]))},
		}, false},
		{slicesResource, i.EndpointSlices.Informer(), cache.Indexers{byPod2: index(labelledPod2[*discoveryv1.EndpointSlice])}, siblings.endpoints, []wake{
			{keys: waking(wakingPod2(KindDNS, labelledPod2[*discoveryv1.EndpointSlice]))},
		}, false},
		{sidecarsResource, i.Sidecars.Informer(), nil, nil, []wake{{keys: waking(s.wokenBySidecar)}}, false},
		{vnisResource, i.VNIs.Informer(), cache.Indexers{byNetwork: index(networkOfVNI)}, nil, []wake{{keys: waking(s.wokenByVNI)}}, false},
		{definitionsResource, i.Definitions.Informer(), nil, nil, []wake{itself[*nadv1.NetworkAttachmentDefinition](KindMultus)}, true},
	}
	if i.Nodes != nil {
		rows = append(rows,
			row{nodesResource, i.Nodes.Informer(), nil, SlimNode, []wake{{keys: s.onRangesOf, same: sameRanges}, {keys: waking(a.nodeChanged), same: sameAddresses}}, false},
			row{addressSlicesResource, i.AddressSlices.Informer(), cache.Indexers{bySliced: index(sliced)}, nil, []wake{{keys: waking(func(s *v1.AddressSlice) []Key { return keysOf(KindAddressSlice, sliced(s)) })}}, false})
		a.wakeFrom(rows)
	}
	if i.Histories != nil {
		rows = append(rows, row{historiesResource, i.Histories.Informer(), cache.Indexers{byNetwork: index(networksOfHistory)}, nil, []wake{
			{keys: waking(func(h *v1.AddressHistory) []Key { return keysOf(KindAddressHistory, networksOfHistory(h)) })},
		}, false})
		h.wakeFrom(rows)
	}
	if i.ServiceCIDRs != nil {
		rows = append(rows, row{serviceCIDRsResource, i.ServiceCIDRs.Informer(), nil, nil, []wake{{keys: s.onRangesOf, same: sameRanges}}, false})
	}
	return rows
}

// register is called before the informer starts.
func (r row) register() error {
	slim := r.slim
	if slim == nil {
		slim = dropManagedFields
	}
	if err := r.informer.SetTransform(slim); err != nil {
		return err
	}
	if len(r.indexers) == 0 {
		return nil
	}
	return r.informer.AddIndexers(r.indexers)
}

// waking turns a function of typed objects into one of event objects. A tombstone, or an
// object of another kind, wakes no key.
func waking[T any](keys func(T) []Key) func(any) []Key {
	return func(obj any) []Key {
		if o, ok := obj.(T); ok {
			return keys(o)
		}
		return nil
	}
}

// index turns a function of typed objects into an index function.
func index[T any](values func(T) []string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		if o, ok := obj.(T); ok {
			return values(o), nil
		}
		return nil, nil
	}
}

// caches read the informers' caches.
type caches struct {
	networks      reader[*v1.Network]
	blocks        reader[*v1.AddressBlock]
	pod2s         reader[*v1.Pod2]
	pods          reader[*corev1.Pod]
	statefulSets  reader[*appsv1.StatefulSet]
	revisions     reader[*appsv1.ControllerRevision]
	claims        reader[*corev1.PersistentVolumeClaim]
	classes       reader[*storagev1.StorageClass]
	cronTabs      reader[*stablev1.CronTab]
	cronJobs      reader[*batchv1.CronJob]
	jobs          reader[*batchv1.Job]
	services      reader[*corev1.Service]
	slices        reader[*discoveryv1.EndpointSlice]
	addressSlices reader[*v1.AddressSlice]
	histories     reader[*v1.AddressHistory]
	nodes         reader[*corev1.Node]
	sidecars      reader[*v1.Sidecar]
	vnis          reader[*v1.VNI]
	definitions   reader[*nadv1.NetworkAttachmentDefinition]
	serviceCIDRs  reader[*networkingv1.ServiceCIDR]
}

func newCaches(i Informers) caches {
	c := caches{
		networks:     reader[*v1.Network]{i.Networks.Informer().GetIndexer()},
		blocks:       reader[*v1.AddressBlock]{i.Blocks.Informer().GetIndexer()},
		pod2s:        reader[*v1.Pod2]{i.Pod2s.Informer().GetIndexer()},
		pods:         reader[*corev1.Pod]{i.Pods.Informer().GetIndexer()},
		statefulSets: reader[*appsv1.StatefulSet]{i.StatefulSets.Informer().GetIndexer()},
		revisions:    reader[*appsv1.ControllerRevision]{i.Revisions.Informer().GetIndexer()},
		claims:       reader[*corev1.PersistentVolumeClaim]{i.Claims.Informer().GetIndexer()},
		classes:      reader[*storagev1.StorageClass]{i.Classes.Informer().GetIndexer()},
		cronTabs:     reader[*stablev1.CronTab]{i.CronTabs.Informer().GetIndexer()},
		cronJobs:     reader[*batchv1.CronJob]{i.CronJobs.Informer().GetIndexer()},
		jobs:         reader[*batchv1.Job]{i.Jobs.Informer().GetIndexer()},
		services:     reader[*corev1.Service]{i.Services.Informer().GetIndexer()},
		slices:       reader[*discoveryv1.EndpointSlice]{i.EndpointSlices.Informer().GetIndexer()},
		sidecars:     reader[*v1.Sidecar]{i.Sidecars.Informer().GetIndexer()},
		vnis:         reader[*v1.VNI]{i.VNIs.Informer().GetIndexer()},
		definitions:  reader[*nadv1.NetworkAttachmentDefinition]{i.Definitions.Informer().GetIndexer()},
	}
	if i.Nodes != nil {
		c.nodes, c.addressSlices = reader[*corev1.Node]{i.Nodes.Informer().GetIndexer()}, reader[*v1.AddressSlice]{i.AddressSlices.Informer().GetIndexer()}
	}
	if i.Histories != nil {
		c.histories = reader[*v1.AddressHistory]{i.Histories.Informer().GetIndexer()}
	}
	if i.ServiceCIDRs != nil {
		c.serviceCIDRs = reader[*networkingv1.ServiceCIDR]{i.ServiceCIDRs.Informer().GetIndexer()}
	}
	return c
}
