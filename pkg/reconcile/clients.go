package reconcile

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "k8s.io/client-go/informers/apps/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	nadinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/k8scnicncfio/v1"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/samplecrd/v1"
	stableinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/stable/v1"
	"github.com/pod2/pod2/pkg/fenced"
)

// Clients are the clients of one API server. New makes live reads and writers from them, and
// does not keep them.
type Clients struct {
	Kube   kubernetes.Interface
	Sample versioned.Interface
}

// Informers feed the caches. These are filtered:
//
//   - Pods by the label samplecrd.k8s.io/managed=true,
//   - Revisions, Claims, Services and EndpointSlices by the label samplecrd.k8s.io/pod2,
//   - Jobs by the label stable.example.com/crontab.
//
// The cluster may not have the kind of Definitions. Nodes and ServiceCIDRs may be nil: then
// Networks do not avoid the addresses in them. AddressSlices are written, and watched, only
// with Nodes. Histories may be nil: then Networks get no AddressHistories.
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
	Sidecars       sampleinformers.SidecarInformer
	VNIs           sampleinformers.VNIInformer
	Definitions    nadinformers.NetworkAttachmentDefinitionInformer
	Nodes          coreinformers.NodeInformer
	AddressSlices  sampleinformers.AddressSliceInformer
	Histories      sampleinformers.AddressHistoryInformer
	ServiceCIDRs   networkinginformers.ServiceCIDRInformer
}

// writers has a writer for each kind that the controller writes.
type writers struct {
	writeNetworks      writer[*samplev1.Network]
	writeBlocks        writer[*samplev1.AddressBlock]
	writePod2s         writer[*samplev1.Pod2]
	writePods          writer[*corev1.Pod]
	writeRevisions     writer[*appsv1.ControllerRevision]
	writeClaims        writer[*corev1.PersistentVolumeClaim]
	writeCronTabs      writer[*stablev1.CronTab]
	writeCronJobs      writer[*batchv1.CronJob]
	writeServices      writer[*corev1.Service]
	writeSlices        writer[*discoveryv1.EndpointSlice]
	writeVNIs          writer[*samplev1.VNI]
	writeAddressSlices writer[*samplev1.AddressSlice]
	writeHistories     writer[*samplev1.AddressHistory]
	writeSidecars      writer[*samplev1.Sidecar]
	writeDefinitions   writer[*nadv1.NetworkAttachmentDefinition]
}

func newWriters(c Clients, w *ownWrites, clock clock.PassiveClock) writers {
	const strategic, merge = types.StrategicMergePatchType, types.MergePatchType
	sample, core := c.Sample.SamplecrdV1(), c.Kube.CoreV1()
	return writers{
		writeNetworks: writer[*samplev1.Network]{fenced.New(merge, func(ns string) fenced.Client[*samplev1.Network] { return sample.Networks(ns) }),
			"Network", networksResource, w, nil},
		writeBlocks: writer[*samplev1.AddressBlock]{fenced.New(merge, func(ns string) fenced.Client[*samplev1.AddressBlock] { return sample.AddressBlocks(ns) }),
			"AddressBlock", blocksResource, w, nil},
		writePod2s: writer[*samplev1.Pod2]{fenced.New(merge, func(ns string) fenced.Client[*samplev1.Pod2] { return sample.Pod2s(ns) }),
			"Pod2", pod2sResource, w, nil},
		writePods: writer[*corev1.Pod]{fenced.New(strategic, func(ns string) fenced.Client[*corev1.Pod] { return core.Pods(ns) }),
			"pod", podsResource, w, newUnwatchedPods(clock)},
		writeRevisions: writer[*appsv1.ControllerRevision]{fenced.New(merge, func(ns string) fenced.Client[*appsv1.ControllerRevision] {
			return c.Kube.AppsV1().ControllerRevisions(ns)
		}),
			"ControllerRevision", revisionsResource, w, nil},
		writeClaims: writer[*corev1.PersistentVolumeClaim]{fenced.New(merge, func(ns string) fenced.Client[*corev1.PersistentVolumeClaim] { return core.PersistentVolumeClaims(ns) }),
			"PersistentVolumeClaim", claimsResource, w, newUnwatched(clock, (*corev1.PersistentVolumeClaim).DeepCopy, labelledAtAll[*corev1.PersistentVolumeClaim])},
		writeCronTabs: writer[*stablev1.CronTab]{fenced.New(merge, func(ns string) fenced.Client[*stablev1.CronTab] { return c.Sample.StableV1().CronTabs(ns) }),
			"CronTab", cronTabsResource, w, nil},
		writeCronJobs: writer[*batchv1.CronJob]{fenced.New(merge, func(ns string) fenced.Client[*batchv1.CronJob] { return c.Kube.BatchV1().CronJobs(ns) }),
			"CronJob", cronJobsResource, w, nil},
		writeServices: writer[*corev1.Service]{fenced.New(merge, func(ns string) fenced.Client[*corev1.Service] { return core.Services(ns) }),
			"Service", servicesResource, w, newUnwatched(clock, (*corev1.Service).DeepCopy, labelledFor[*corev1.Service])},
		writeSlices: writer[*discoveryv1.EndpointSlice]{fenced.New(merge, func(ns string) fenced.Client[*discoveryv1.EndpointSlice] {
			return c.Kube.DiscoveryV1().EndpointSlices(ns)
		}),
			"EndpointSlice", slicesResource, w, newUnwatched(clock, (*discoveryv1.EndpointSlice).DeepCopy, labelledFor[*discoveryv1.EndpointSlice])},
		writeVNIs: writer[*samplev1.VNI]{fenced.New(merge, func(string) fenced.Client[*samplev1.VNI] { return sample.VNIs() }),
			"VNI", vnisResource, w, nil},
		writeAddressSlices: writer[*samplev1.AddressSlice]{fenced.New(merge, func(ns string) fenced.Client[*samplev1.AddressSlice] { return sample.AddressSlices(ns) }),
			"AddressSlice", addressSlicesResource, w, nil},
		writeHistories: writer[*samplev1.AddressHistory]{fenced.New(merge, func(ns string) fenced.Client[*samplev1.AddressHistory] { return sample.AddressHistories(ns) }),
			"AddressHistory", historiesResource, w, nil},
		writeSidecars: writer[*samplev1.Sidecar]{fenced.New(merge, func(ns string) fenced.Client[*samplev1.Sidecar] { return sample.Sidecars(ns) }),
			"Sidecar", sidecarsResource, w, nil},
		writeDefinitions: writer[*nadv1.NetworkAttachmentDefinition]{fenced.New(merge, func(ns string) fenced.Client[*nadv1.NetworkAttachmentDefinition] {
			return c.Sample.K8sCniCncfIoV1().NetworkAttachmentDefinitions(ns)
		}), "NetworkAttachmentDefinition", definitionsResource, w, nil},
	}
}

type getter[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

type lister[T any] interface {
	List(ctx context.Context, opts metav1.ListOptions) (T, error)
}

type getLister[T, L any] interface {
	getter[T]
	lister[L]
}

// live makes quorum reads from the API server, for facts that a precondition of a write
// cannot express.
type live struct {
	networks  func(namespace string) getLister[*samplev1.Network, *samplev1.NetworkList]
	blocks    func(namespace string) lister[*samplev1.AddressBlockList]
	pod2s     func(namespace string) getter[*samplev1.Pod2]
	pods      func(namespace string) getLister[*corev1.Pod, *corev1.PodList]
	revisions func(namespace string) getter[*appsv1.ControllerRevision]
	cronTabs  func(namespace string) getter[*stablev1.CronTab]
	cronJobs  func(namespace string) getter[*batchv1.CronJob]
	jobs      func(namespace string) lister[*batchv1.JobList]
}

func newLive(c Clients) live {
	return live{
		networks: func(ns string) getLister[*samplev1.Network, *samplev1.NetworkList] {
			return c.Sample.SamplecrdV1().Networks(ns)
		},
		blocks:    func(ns string) lister[*samplev1.AddressBlockList] { return c.Sample.SamplecrdV1().AddressBlocks(ns) },
		pod2s:     func(ns string) getter[*samplev1.Pod2] { return c.Sample.SamplecrdV1().Pod2s(ns) },
		pods:      func(ns string) getLister[*corev1.Pod, *corev1.PodList] { return c.Kube.CoreV1().Pods(ns) },
		revisions: func(ns string) getter[*appsv1.ControllerRevision] { return c.Kube.AppsV1().ControllerRevisions(ns) },
		cronTabs:  func(ns string) getter[*stablev1.CronTab] { return c.Sample.StableV1().CronTabs(ns) },
		cronJobs:  func(ns string) getter[*batchv1.CronJob] { return c.Kube.BatchV1().CronJobs(ns) },
		jobs:      func(ns string) lister[*batchv1.JobList] { return c.Kube.BatchV1().Jobs(ns) },
	}
}
