package spec

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// Cluster holds the objects of an API server at one moment: those of one namespace and the
// cluster-scoped ones.
type Cluster struct {
	Now            time.Time
	Networks       []*v1.Network
	Blocks         []*v1.AddressBlock
	Pods           []*corev1.Pod
	Pod2s          []*v1.Pod2
	StatefulSets   []*appsv1.StatefulSet
	Revisions      []*appsv1.ControllerRevision
	Claims         []*corev1.PersistentVolumeClaim
	Classes        []*storagev1.StorageClass
	Services       []*corev1.Service
	EndpointSlices []*discoveryv1.EndpointSlice
	VNIs           []*v1.VNI
	AddressSlices  []*v1.AddressSlice
	Histories      []*v1.AddressHistory
	Sidecars       []*v1.Sidecar
	Nodes          []*corev1.Node
	// Definitions are nil in a cluster without the kind.
	Definitions []*nadv1.NetworkAttachmentDefinition
	CronTabs    []*stablev1.CronTab
	CronJobs    []*batchv1.CronJob
	Jobs        []*batchv1.Job
}

// named returns the object with this name, nil if there is none.
func named[T metav1.Object](objects []T, name string) (found T) {
	for _, o := range objects {
		if o.GetName() == name {
			return o
		}
	}
	return found
}
