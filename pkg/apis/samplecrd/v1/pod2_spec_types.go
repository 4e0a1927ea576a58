package v1

import "k8s.io/apimachinery/pkg/util/intstr"

// PodManagementPolicyType names the order in which replicas are created and
// deleted.
//
// +kubebuilder:validation:Enum=Parallel;OrderedReady
type PodManagementPolicyType string

const (
	// ParallelPodManagement creates and deletes replicas at once.
	ParallelPodManagement PodManagementPolicyType = "Parallel"
	// OrderedReadyPodManagement creates and deletes replicas one by one.
	OrderedReadyPodManagement PodManagementPolicyType = "OrderedReady"
)

// ClaimRetentionPolicyType says whether to keep or delete a PVC that is no
// longer needed.
//
// +kubebuilder:validation:Enum=Retain;Delete
type ClaimRetentionPolicyType string

const (
	// RetainClaim keeps the PVC and its data.
	RetainClaim ClaimRetentionPolicyType = "Retain"
	// DeleteClaim deletes the PVC once its pod is gone.
	DeleteClaim ClaimRetentionPolicyType = "Delete"
)

// Pod2ClaimRetentionPolicy says when PVCs are deleted.
type Pod2ClaimRetentionPolicy struct {
	// whenDeleted controls the PVCs when the Pod2 is deleted. "Retain" keeps them.
	// "Delete" gives them an owner reference to the Pod2, so they are deleted with
	// it. Defaults to "Retain".
	//
	// +optional
	// +default="Retain"
	WhenDeleted ClaimRetentionPolicyType `json:"whenDeleted,omitempty"`

	// whenScaled controls the PVCs of a replica that is scaled down, or whose
	// ordinal is reserved. "Retain" keeps them. "Delete" deletes them once the pod
	// is gone. Defaults to "Retain".
	//
	// +optional
	// +default="Retain"
	WhenScaled ClaimRetentionPolicyType `json:"whenScaled,omitempty"`
}

// Pod2Ordinals numbers the replicas.
type Pod2Ordinals struct {
	// start is the ordinal of the first replica; the others follow it. It is
	// immutable. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Start int32 `json:"start,omitempty"`
}

// Pod2Network is a Network that the replicas join.
type Pod2Network struct {
	// name is the name of a Network of the same namespace.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// addresses lists addresses to ask for: the first is for the first replica,
	// and so on. Replicas beyond the end of the list get any free address. If a
	// replica cannot get its address, it waits and its condition says why.
	// Defaults to none.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	Addresses []Address `json:"addresses,omitempty"`

	// interface is the name of the replicas' interface on the Network. With eth0,
	// the Network is their default route, and they are not on the network of the
	// cluster. It must not be lo, and must be unique among networks. Defaults to
	// the next free of net1, net2, ...
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`
	// +kubebuilder:validation:XValidation:rule="self != 'lo'",message="must not be lo, the loopback interface of every pod"
	Interface string `json:"interface,omitempty"`
}

// Address is one IPv4 or IPv6 address.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address"
type Address string

// Pod2UpdateStrategyType names a way to replace replicas.
//
// +kubebuilder:validation:Enum=RollingUpdate;Recreate;OnDelete
type Pod2UpdateStrategyType string

const (
	// RollingUpdate replaces replicas from the highest ordinal down, as many at
	// once as maxUnavailable allows.
	RollingUpdate Pod2UpdateStrategyType = "RollingUpdate"
	// Recreate deletes all replicas of an old template before it creates new ones.
	Recreate Pod2UpdateStrategyType = "Recreate"
	// OnDelete replaces a replica only once it is deleted.
	OnDelete Pod2UpdateStrategyType = "OnDelete"
)

// Pod2UpdateStrategy controls how a change reaches the replicas.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",message="rollingUpdate is allowed only if type is RollingUpdate",fieldPath=".rollingUpdate"
type Pod2UpdateStrategy struct {
	// type is "RollingUpdate", "Recreate" or "OnDelete". "RollingUpdate" replaces
	// replicas from the highest ordinal down, within the bounds of rollingUpdate.
	// "Recreate" deletes all old replicas before it creates new ones. "OnDelete"
	// replaces a replica only once it is deleted. Defaults to "RollingUpdate".
	//
	// +optional
	// +default="RollingUpdate"
	Type Pod2UpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate sets the bounds of a RollingUpdate. It is allowed only if type
	// is RollingUpdate.
	//
	// +optional
	RollingUpdate *Pod2RollingUpdate `json:"rollingUpdate,omitempty"`

	// inPlace controls whether an update may change running pods. "IfPossible"
	// changes container images, cpu and memory, and labels in the running pod,
	// which keeps its node and its volumes. Any other change replaces the pod; an
	// event says which change, and why. "Never" always replaces the pod. Defaults
	// to "IfPossible".
	//
	// +optional
	// +default="IfPossible"
	InPlace InPlacePolicy `json:"inPlace,omitempty"`
}

// InPlacePolicy says whether running pods are changed.
//
// +kubebuilder:validation:Enum=IfPossible;Never
type InPlacePolicy string

const (
	// InPlaceIfPossible changes a running pod where that is possible.
	InPlaceIfPossible InPlacePolicy = "IfPossible"
	// InPlaceNever always replaces the pod.
	InPlaceNever InPlacePolicy = "Never"
)

// Pod2RollingUpdate sets the bounds of a RollingUpdate.
type Pod2RollingUpdate struct {
	// maxSurge is the number of replicas that an update may create above replicas:
	// a number, or a percentage of replicas, rounded up. Surge replicas have the
	// ordinals after the last replica's, and addresses of their own. They are
	// deleted when the update is complete. Defaults to 0.
	//
	// +optional
	// +default=0
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number from 0 to 100000 or a percentage from 0% to 100%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is the number of replicas that an update may make
	// unavailable: a number, or a percentage of replicas, rounded down. If it and
	// maxSurge are both 0 after rounding, it counts as 1, because the update could
	// not proceed otherwise. Defaults to 1.
	//
	// A replica of an old template that is not Ready is replaced at once and never
	// counts. A replica that is Ready, but not yet for minReadySeconds, counts as
	// unavailable. A scaled-down replica that is available stays until enough of
	// the remaining replicas are available.
	//
	// +optional
	// +default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number from 0 to 100000 or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// partition is the position of the first replica to update, counted from 0.
	// Replicas before it stay at status.currentRevision, and are recreated with
	// it. If partition is not less than replicas, no replica is updated. Defaults
	// to 0, which updates all.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=200000
	Partition int32 `json:"partition,omitempty"`
}
