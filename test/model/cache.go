package model

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	kubeapps "k8s.io/client-go/informers/apps/v1"
	kubebatch "k8s.io/client-go/informers/batch/v1"
	kubecore "k8s.io/client-go/informers/core/v1"
	kubediscovery "k8s.io/client-go/informers/discovery/v1"
	kubestorage "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	"github.com/pod2/pod2/pkg/client/informers/externalversions"
	nadinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/k8scnicncfio/v1"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/samplecrd/v1"
	stableinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/stable/v1"
	samplelisters "github.com/pod2/pod2/pkg/client/listers/samplecrd/v1"
)

// Stage is the surroundings of one sync: caches and clients. The model changes them between
// two syncs.
type Stage struct {
	indexers [kinds]*indexer
	client   client
	empty    informers.SharedInformerFactory
	none     externalversions.SharedInformerFactory
}

func newStage() *Stage {
	s := &Stage{
		empty: informers.NewSharedInformerFactory(nil, 0),
		none:  externalversions.NewSharedInformerFactory(nil, 0),
	}
	for k := range kinds {
		s.indexers[k] = &indexer{indexes: cache.Indexers{}, memo: map[indexed][]string{}}
	}
	return s
}

// Kube returns the client of pods and ControllerRevisions.
func (s *Stage) Kube() kubernetes.Interface { return kubeSet{client: &s.client} }

// Sample returns the client of Networks, AddressBlocks and Pod2s.
func (s *Stage) Sample() versioned.Interface { return sampleSet{client: &s.client} }

type informer struct {
	cache.SharedIndexInformer
	indexer *indexer
}

func (i informer) AddIndexers(indexers cache.Indexers) error {
	for name, index := range indexers {
		i.indexer.indexes[name] = index
	}
	return nil
}

func (i informer) SetTransform(cache.TransformFunc) error { return nil } // objects are slim

func (i informer) GetIndexer() cache.Indexer { return i.indexer }

type networkInformer struct{ informer }
type blockInformer struct{ informer }
type pod2Informer struct{ informer }
type podInformer struct{ informer }
type revisionInformer struct{ informer }
type historyInformer struct{ informer }

func (i networkInformer) Informer() cache.SharedIndexInformer  { return i.informer }
func (i blockInformer) Informer() cache.SharedIndexInformer    { return i.informer }
func (i pod2Informer) Informer() cache.SharedIndexInformer     { return i.informer }
func (i podInformer) Informer() cache.SharedIndexInformer      { return i.informer }
func (i revisionInformer) Informer() cache.SharedIndexInformer { return i.informer }
func (i historyInformer) Informer() cache.SharedIndexInformer  { return i.informer }

func (i networkInformer) Lister() samplelisters.NetworkLister {
	return samplelisters.NewNetworkLister(i.indexer)
}
func (i blockInformer) Lister() samplelisters.AddressBlockLister {
	return samplelisters.NewAddressBlockLister(i.indexer)
}
func (i pod2Informer) Lister() samplelisters.Pod2Lister {
	return samplelisters.NewPod2Lister(i.indexer)
}
func (i podInformer) Lister() corelisters.PodLister { return corelisters.NewPodLister(i.indexer) }
func (i revisionInformer) Lister() appslisters.ControllerRevisionLister {
	return appslisters.NewControllerRevisionLister(i.indexer)
}

func (i historyInformer) Lister() samplelisters.AddressHistoryLister {
	return samplelisters.NewAddressHistoryLister(i.indexer)
}

// Networks has all Networks. It and the following informers feed the listers of a
// controller.
func (s *Stage) Networks() sampleinformers.NetworkInformer {
	return networkInformer{informer{indexer: s.indexers[Networks]}}
}

// Blocks has the AddressBlocks of all Networks.
func (s *Stage) Blocks() sampleinformers.AddressBlockInformer {
	return blockInformer{informer{indexer: s.indexers[Blocks]}}
}

// Pod2s has all Pod2s.
func (s *Stage) Pod2s() sampleinformers.Pod2Informer {
	return pod2Informer{informer{indexer: s.indexers[Pod2s]}}
}

// Pods has the pods with the label that the controller's watch selects.
func (s *Stage) Pods() kubecore.PodInformer {
	return podInformer{informer{indexer: s.indexers[Pods]}}
}

// Revisions has all ControllerRevisions.
func (s *Stage) Revisions() kubeapps.ControllerRevisionInformer {
	return revisionInformer{informer{indexer: s.indexers[Revisions]}}
}

// Histories has the AddressHistories of all Networks.
func (s *Stage) Histories() sampleinformers.AddressHistoryInformer {
	return historyInformer{informer{indexer: s.indexers[Histories]}}
}

// No configuration has objects of the following kinds.

// StatefulSets is empty.
func (s *Stage) StatefulSets() kubeapps.StatefulSetInformer {
	return s.empty.Apps().V1().StatefulSets()
}

// Claims is empty.
func (s *Stage) Claims() kubecore.PersistentVolumeClaimInformer {
	return s.empty.Core().V1().PersistentVolumeClaims()
}

// Classes is empty.
func (s *Stage) Classes() kubestorage.StorageClassInformer {
	return s.empty.Storage().V1().StorageClasses()
}

// CronTabs is empty.
func (s *Stage) CronTabs() stableinformers.CronTabInformer { return s.none.Stable().V1().CronTabs() }

// Sidecars is empty.
func (s *Stage) Sidecars() sampleinformers.SidecarInformer { return s.none.Samplecrd().V1().Sidecars() }

// CronJobs is empty.
func (s *Stage) CronJobs() kubebatch.CronJobInformer { return s.empty.Batch().V1().CronJobs() }

// Jobs is empty.
func (s *Stage) Jobs() kubebatch.JobInformer { return s.empty.Batch().V1().Jobs() }

// Services is empty.
func (s *Stage) Services() kubecore.ServiceInformer { return s.empty.Core().V1().Services() }

// EndpointSlices is empty.
func (s *Stage) EndpointSlices() kubediscovery.EndpointSliceInformer {
	return s.empty.Discovery().V1().EndpointSlices()
}

// VNIs is empty.
func (s *Stage) VNIs() sampleinformers.VNIInformer { return s.none.Samplecrd().V1().VNIs() }

// Definitions is empty.
func (s *Stage) Definitions() nadinformers.NetworkAttachmentDefinitionInformer {
	return s.none.K8sCniCncfIo().V1().NetworkAttachmentDefinitions()
}

// indexer is a cache of a few objects.
type indexer struct {
	cache.Indexer
	objects []*object
	at      uint16
	indexes cache.Indexers
	memo    map[indexed][]string
}

type indexed struct {
	index  string
	object *object
}

func (x *indexer) ByIndex(name, value string) ([]any, error) {
	var found []any
	for _, o := range x.objects {
		values, known := x.memo[indexed{name, o}]
		if !known {
			var err error
			if values, err = x.indexes[name](o.slim); err != nil {
				return nil, err
			}
			x.memo[indexed{name, o}] = values
		}
		if slices.Contains(values, value) {
			found = append(found, o.slim)
		}
	}
	return found, nil
}

func (x *indexer) GetByKey(key string) (any, bool, error) {
	for _, o := range x.objects {
		if key == namespace+"/"+o.name {
			return o.slim, true, nil
		}
	}
	return nil, false, nil
}

func (x *indexer) LastStoreSyncResourceVersion() string { return versionText(x.at) }

const namespace = metav1.NamespaceDefault
