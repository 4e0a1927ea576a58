package pod2

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// State is the only input of one decision about one Pod2: one view, read from caches.
type State struct {
	Now time.Time
	// Pod2 is never nil. If it is terminating, no other field is read. A field without a
	// value counts as its default. Leave the template as the user wrote it: a default of a
	// later release would change its hash and replace every pod.
	Pod2 *v1.Pod2
	// Pods, in name order: every pod of the namespace that this Pod2 controls (by UID),
	// that has its label samplecrd.k8s.io/pod2, or that has the name of a replica, if
	// known. Decisions read these fields:
	//   - the metadata
	//   - of the spec: nodeName, schedulingGates, images of init containers, and images,
	//     resources and resizePolicy of containers
	//   - of the status: phase, reason, message, conditions and statuses of containers
	//   - of a pod without a controller: the whole spec
	Pods []*corev1.Pod
	// Steady are replicas that an earlier decision found steady, and that Fit this State. Pods and
	// Claims leave out theirs, which are unchanged. If it is nil, they have all. The decision is
	// the same, and takes less time.
	Steady *Steady
	// Facts of an earlier decision about this Pod2. They save time and decide nothing.
	Facts Facts
	// Sidecars are the updates, by the UID of the pod, that the bounds of the Sidecars allow
	// now.
	Sidecars map[types.UID]SidecarUpdate
	// Refused are resizes that the API server called invalid, by the UID of the pod. It
	// would refuse the same resize again.
	Refused map[types.UID]Refusal
	// Unadoptable pods, by UID: their adoption just failed. They count as pods of another
	// owner.
	Unadoptable map[types.UID]Unadoptable
	// Revisions of the namespace that have the label of the Pod2, in name order.
	Revisions []*appsv1.ControllerRevision
	// Claims, in name order: every known PVC of the namespace that has the name of a PVC
	// of this Pod2, with or without its label.
	Claims []*corev1.PersistentVolumeClaim
	// StorageClasses that the PVCs name and that exist.
	StorageClasses []*storagev1.StorageClass
	// Holders of the addresses that the spec wants, see func Holders.
	Holders []Holder
	// Networks that replicas ask for and that exist, in name order.
	Networks []*v1.Network
	// Names is the known state of the DNS names of replicas. If it is nil, nothing is
	// known yet, and the status stays unchanged.
	Names *Names
	// NumbersHeld is how long the numbers of the status stay unchanged.
	NumbersHeld time.Duration
}

// Names is the result of pkg/pod2/dns for the status: its condition, or nil for none.
type Names struct{ Condition *metav1.Condition }

// Told reports whether a status has the condition.
func (n Names) Told(status v1.Pod2Status) bool {
	next := status.DeepCopy()
	n.Tell(next)
	return equality.Semantic.DeepEqual(*next, status)
}

// Tell writes the condition to a status.
func (n *Names) Tell(status *v1.Pod2Status) {
	switch {
	case n == nil:
	case n.Condition == nil:
		meta.RemoveStatusCondition(&status.Conditions, v1.ConditionDNSPublished)
	default:
		meta.SetStatusCondition(&status.Conditions, *n.Condition)
	}
}

// Unadoptable is a pod whose adoption failed. If the answer to its adoption was lost, the
// Pod2 may own it. It then counts as an owned pod when pods are counted before others are
// created.
type Unadoptable struct{ MayBeOurs bool }

// Refusal of a resize: the requested resources, by container, and the answer of the API
// server.
type Refusal struct {
	Resources map[string]corev1.ResourceRequirements
	Message   string
}

// Ordinals returns the ordinals of the replicas.
func Ordinals(p *v1.Pod2) ordinals.Range {
	start := int32(0)
	if p.Spec.Ordinals != nil {
		start = p.Spec.Ordinals.Start
	}
	return ordinals.New(start, ptr.Deref(p.Spec.Replicas, 1), p.Spec.ReserveOrdinals)
}
