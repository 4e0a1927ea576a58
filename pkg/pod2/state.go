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

// State is all that one decision about one Pod2 is made from: one view, read
// from caches.
type State struct {
	Now time.Time
	// Pod2 is never nil; it may be terminating. A field without a value counts as
	// its default. Leave the template as the user wrote it: a default of a later
	// release would change its hash and replace every pod.
	Pod2 *v1.Pod2
	// Pods, in name order: every pod of the namespace that this Pod2 controls (by
	// UID), that carries its label samplecrd.k8s.io/pod2, or that is known to have
	// a replica's name. Of each, decisions read metadata; of the spec nodeName,
	// schedulingGates, and images, resources and resizePolicy of containers; of the
	// status phase, reason, message, conditions and containerStatuses; of one without
	// a controller the whole spec.
	Pods []*corev1.Pod
	// Refused are resizes that the API server called invalid, by the UID of the pod.
	// It would again, whenever it is asked for the same.
	Refused map[types.UID]Refusal
	// Unadoptable pods, by UID: their adoption just failed. They count as those of
	// somebody else.
	Unadoptable map[types.UID]Unadoptable
	// Revisions of the namespace that carry the label of the Pod2, in name order.
	Revisions []*appsv1.ControllerRevision
	// Claims, in name order: every one of the namespace that has the name of a claim
	// of this Pod2, as far as known, with our label or without.
	Claims []*corev1.PersistentVolumeClaim
	// StorageClasses that they name and that exist.
	StorageClasses []*storagev1.StorageClass
	// Holders of the addresses that the spec wants, see the function of that name.
	Holders []Holder
	// Networks are those that replicas ask for and that exist, in name order.
	Networks []*v1.Network
	// Names is what is known of the names of replicas; nil: nothing yet, and the status
	// stays as it is.
	Names *Names
	// NumbersHeld is how long the numbers of the status are to stay as they are.
	NumbersHeld time.Duration
}

// Names is what pkg/pod2/dns decides and the status tells: its condition, or, nil, none.
type Names struct{ Condition *metav1.Condition }

// Told says whether a status has it.
func (n Names) Told(status v1.Pod2Status) bool {
	next := status.DeepCopy()
	n.Tell(next)
	return equality.Semantic.DeepEqual(*next, status)
}

// Tell puts it into a status.
func (n *Names) Tell(status *v1.Pod2Status) {
	switch {
	case n == nil:
	case n.Condition == nil:
		meta.RemoveStatusCondition(&status.Conditions, v1.ConditionNetworkDNS)
	default:
		meta.SetStatusCondition(&status.Conditions, *n.Condition)
	}
}

// Unadoptable pod. One that may be ours, as the answer to its adoption was lost, takes
// the place of one of ours where pods are counted before others are created.
type Unadoptable struct{ MayBeOurs bool }

// Refusal of a resize: what was asked for, by container, and what the API server
// said.
type Refusal struct {
	Resources map[string]corev1.ResourceRequirements
	Message   string
}

// Ordinals are those of the replicas.
func Ordinals(p *v1.Pod2) ordinals.Range {
	start := int32(0)
	if p.Spec.Ordinals != nil {
		start = p.Spec.Ordinals.Start
	}
	return ordinals.New(start, ptr.Deref(p.Spec.Replicas, 1), p.Spec.ReserveOrdinals)
}
