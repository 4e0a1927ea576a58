package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pod2 is a replicated workload whose replicas keep their name and their
// addresses, on any number of Networks. Replica i is the pod <name>-<i>; when
// it is deleted, evicted or updated, the pod that follows it has the same name
// and, on every Network, the same address.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=pod2s,singular=pod2,shortName=p2,scope=Namespaced,categories=all
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, sample project"
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="AVAILABLE",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="NETWORKS",type=string,JSONPath=`.status.networks`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="The reason of the condition Ready."
// +kubebuilder:printcolumn:name="IMAGE",type=string,JSONPath=`.spec.template.spec.containers[0].image`,priority=1,description="The image of the first container: a column shows one value."
// +kubebuilder:printcolumn:name="SELECTOR",type=string,JSONPath=`.status.selector`,priority=1,description="The label selector of the pods."
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 57 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a Pod2 is a DNS label of at most 57 characters: its replicas are named <name>-<ordinal>",fieldPath=".metadata"
type Pod2 struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec Pod2Spec `json:"spec"`
	// What the controller found; written by it alone.
	// +optional
	Status Pod2Status `json:"status,omitempty"`
}

// Pod2Spec declares the replicas.
//
// +kubebuilder:validation:XValidation:rule="self.?ordinals.?start.orValue(0) == oldSelf.?ordinals.?start.orValue(0)",message="ordinals.start never changes: it would replace every replica at once, by one of another name",fieldPath=".ordinals.start"
// +kubebuilder:validation:XValidation:rule="(has(self.volumeClaimTemplates) && self.volumeClaimTemplates.size() > 0) == (has(oldSelf.volumeClaimTemplates) && oldSelf.volumeClaimTemplates.size() > 0)",message="volumeClaimTemplates are neither added nor removed, renamed or moved: the replicas that exist could not follow; make a new Pod2",fieldPath=".volumeClaimTemplates"
type Pod2Spec struct {
	// How many replicas there should be, 0 to 100000. Default 1. An autoscaler
	// may change it at any time (`kubectl scale pod2 web --replicas=5`).
	//
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Replicas *int32 `json:"replicas,omitempty"`

	// How replicas are numbered. It cannot be changed later.
	//
	// +optional
	Ordinals *Pod2Ordinals `json:"ordinals,omitempty"`

	// Ordinals to leave out. With replicas 3 and reserveOrdinals [1] the replicas
	// are 0, 2 and 3: this is how one chosen replica is removed. Its addresses are
	// kept as those of a replica that was scaled away.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:Minimum=0
	ReserveOrdinals []int32 `json:"reserveOrdinals,omitempty"`

	// Parallel (the default) creates and deletes replicas at once; OrderedReady
	// creates each when all before it are available, and deletes each when the one
	// after it is gone. Updates are bounded by updateStrategy either way.
	//
	// +optional
	// +default="Parallel"
	PodManagementPolicy PodManagementPolicyType `json:"podManagementPolicy,omitempty"`

	// The Networks, of the same namespace, on which every replica has an address.
	// The replicas are created gated and are scheduled once their addresses are
	// bound. A change replaces the replicas as a change of the template does. On
	// each Network a replica has the DNS name <pod2>-<ordinal>.<pod2>-<network>,
	// by a headless Service that is made for it; it is that of its address for as
	// long as the replica lives, ready or not.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(n, has(n.interface)).all(n, self.exists_one(m, has(m.interface) && m.interface == n.interface))",message="two Networks are on one interface"
	Networks []Pod2Network `json:"networks,omitempty"`

	// The pod of each replica. It gets the name and the hostname
	// <pod2>-<ordinal>, the Pod2's own labels beneath those given here, and the
	// labels samplecrd.k8s.io/pod2, samplecrd.k8s.io/pod-index and
	// samplecrd.k8s.io/pod-template-hash.
	//
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// A headless Service of the same namespace that gives each replica the DNS
	// name <pod2>-<ordinal>.<serviceName>, as a StatefulSet's does. The Service
	// is yours to create.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	ServiceName string `json:"serviceName,omitempty"`

	// PersistentVolumeClaims of each replica, as a StatefulSet's: the claim
	// <template>-<pod2>-<ordinal> is created before the replica, which has it as
	// its volume <template>, and outlives it. A claim of that name that is there
	// already is used, unless it is another owner's: then the replica waits, and
	// the condition Ready says so. Claims carry the labels samplecrd.k8s.io/pod2
	// and samplecrd.k8s.io/pod-index. Only spec.resources.requests.storage may
	// change, upwards: the claims that exist grow where their StorageClass allows
	// it; the condition ClaimsResized says where not. No change of it replaces a
	// replica. At most 8 templates, by what the API server lets their rules cost.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.metadata) && has(t.metadata.name) && has(t.spec) && has(t.spec.resources) && has(t.spec.resources.requests) && 'storage' in t.spec.resources.requests && type(t.spec.resources.requests['storage']) == string)",message="a volumeClaimTemplate needs metadata.name and, as text such as 1Gi, spec.resources.requests.storage"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2].all(i, [1, 2, 3, 4, 5, 6, 7].all(j, i >= j || j >= self.size() || self[i].metadata.name != self[j].metadata.name))",message="the names of volumeClaimTemplates differ: they are those of a replica's volumes"
	// +kubebuilder:validation:XValidation:rule="[3, 4, 5, 6].all(i, [4, 5, 6, 7].all(j, i >= j || j >= self.size() || self[i].metadata.name != self[j].metadata.name))",message="the names of volumeClaimTemplates differ: they are those of a replica's volumes"
	// +kubebuilder:validation:XValidation:rule="self.size() == oldSelf.size() && [0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || self[i].metadata.name == oldSelf[i].metadata.name)",message="volumeClaimTemplates are neither added nor removed, renamed or moved: the replicas that exist could not follow; make a new Pod2"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || i >= oldSelf.size() || has(self[i].metadata.labels) == has(oldSelf[i].metadata.labels) && (!has(self[i].metadata.labels) || self[i].metadata.labels == oldSelf[i].metadata.labels) && has(self[i].metadata.annotations) == has(oldSelf[i].metadata.annotations) && (!has(self[i].metadata.annotations) || self[i].metadata.annotations == oldSelf[i].metadata.annotations) && has(self[i].spec.selector) == has(oldSelf[i].spec.selector) && (!has(self[i].spec.selector) || self[i].spec.selector == oldSelf[i].spec.selector) && has(self[i].spec.dataSource) == has(oldSelf[i].spec.dataSource) && (!has(self[i].spec.dataSource) || self[i].spec.dataSource == oldSelf[i].spec.dataSource) && has(self[i].spec.dataSourceRef) == has(oldSelf[i].spec.dataSourceRef) && (!has(self[i].spec.dataSourceRef) || self[i].spec.dataSourceRef == oldSelf[i].spec.dataSourceRef) && has(self[i].spec.resources.limits) == has(oldSelf[i].spec.resources.limits) && (!has(self[i].spec.resources.limits) || self[i].spec.resources.limits == oldSelf[i].spec.resources.limits))",message="of a volumeClaimTemplate only spec.resources.requests.storage may change: the claims that exist could not follow"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || i >= oldSelf.size() || has(self[i].spec.accessModes) == has(oldSelf[i].spec.accessModes) && (!has(self[i].spec.accessModes) || self[i].spec.accessModes == oldSelf[i].spec.accessModes) && has(self[i].spec.volumeMode) == has(oldSelf[i].spec.volumeMode) && (!has(self[i].spec.volumeMode) || self[i].spec.volumeMode == oldSelf[i].spec.volumeMode))",message="of a volumeClaimTemplate only spec.resources.requests.storage may change: the claims that exist could not follow"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || i >= oldSelf.size() || has(self[i].spec.storageClassName) == has(oldSelf[i].spec.storageClassName) && (!has(self[i].spec.storageClassName) || self[i].spec.storageClassName == oldSelf[i].spec.storageClassName) && has(self[i].spec.volumeAttributesClassName) == has(oldSelf[i].spec.volumeAttributesClassName) && (!has(self[i].spec.volumeAttributesClassName) || self[i].spec.volumeAttributesClassName == oldSelf[i].spec.volumeAttributesClassName) && has(self[i].spec.volumeName) == has(oldSelf[i].spec.volumeName) && (!has(self[i].spec.volumeName) || self[i].spec.volumeName == oldSelf[i].spec.volumeName))",message="of a volumeClaimTemplate only spec.resources.requests.storage may change: the claims that exist could not follow"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || i >= oldSelf.size() || quantity(self[i].spec.resources.requests['storage']).compareTo(quantity(oldSelf[i].spec.resources.requests['storage'])) >= 0)",message="the size of a volumeClaimTemplate only grows: no volume can be made smaller"
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// What becomes of the claims of volumeClaimTemplates. Default: all are kept.
	// Claims that a surge replica brought about go with it, whatever this says.
	//
	// +optional
	PersistentVolumeClaimRetentionPolicy *Pod2ClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// How a changed template or network reaches the replicas.
	//
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy Pod2UpdateStrategy `json:"updateStrategy,omitempty"`

	// For how many seconds a replica must be ready without interruption before
	// it counts as available. Default 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// Stops an update where it is; replicas that are lost meanwhile come back with
	// the revision that they had. Scaling goes on. Default false.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`

	// After how many seconds without progress the condition Progressing turns
	// False; paused time does not count. Default 600.
	//
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// How many revisions to keep besides those that are in use, to go back to.
	// Default 10.
	//
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// PodManagementPolicyType says in which order replicas come and go.
//
// +kubebuilder:validation:Enum=Parallel;OrderedReady
type PodManagementPolicyType string

const (
	// ParallelPodManagement creates and deletes replicas at once.
	ParallelPodManagement PodManagementPolicyType = "Parallel"
	// OrderedReadyPodManagement does so one by one.
	OrderedReadyPodManagement PodManagementPolicyType = "OrderedReady"
)

// ClaimRetentionPolicyType says what becomes of a claim that is not needed.
//
// +kubebuilder:validation:Enum=Retain;Delete
type ClaimRetentionPolicyType string

const (
	// RetainClaim keeps it, and its data.
	RetainClaim ClaimRetentionPolicyType = "Retain"
	// DeleteClaim deletes it once its pod is gone.
	DeleteClaim ClaimRetentionPolicyType = "Delete"
)

// Pod2ClaimRetentionPolicy says when claims are deleted.
type Pod2ClaimRetentionPolicy struct {
	// When the Pod2 is deleted: Retain (the default), or Delete, for which its
	// claims have an owner reference to it.
	//
	// +optional
	// +default="Retain"
	WhenDeleted ClaimRetentionPolicyType `json:"whenDeleted,omitempty"`

	// When a replica is scaled away, or its ordinal is reserved: Retain (the
	// default), or Delete, once its pod is gone.
	//
	// +optional
	// +default="Retain"
	WhenScaled ClaimRetentionPolicyType `json:"whenScaled,omitempty"`
}

// Pod2Ordinals numbers the replicas.
type Pod2Ordinals struct {
	// The ordinal of the first replica; the others follow it. Default 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Start int32 `json:"start,omitempty"`
}

// Pod2Network is a Network that the replicas join.
type Pod2Network struct {
	// Name of a Network of the same namespace.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Wanted addresses: the first for the first replica, and so on; replicas
	// beyond the list get any free address. A replica whose wanted address
	// cannot be had waits, and says so.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	Addresses []Address `json:"addresses,omitempty"`

	// What the replicas call their interface on the Network. With eth0 the
	// Network is their default route, and the network of the cluster none of
	// theirs. Default: the next free of net1, net2, ...
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`
	// +kubebuilder:validation:XValidation:rule="self != 'lo'",message="lo is the loopback interface of every pod"
	Interface string `json:"interface,omitempty"`
}

// Address is one IPv4 or IPv6 address.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="not an IP address"
type Address string

// Pod2UpdateStrategyType names a way to replace replicas.
//
// +kubebuilder:validation:Enum=RollingUpdate;Recreate;OnDelete
type Pod2UpdateStrategyType string

const (
	// RollingUpdate replaces replicas from the highest ordinal down, as many at
	// once as maxUnavailable allows.
	RollingUpdate Pod2UpdateStrategyType = "RollingUpdate"
	// Recreate deletes all replicas of an old template before it creates one of
	// the new.
	Recreate Pod2UpdateStrategyType = "Recreate"
	// OnDelete replaces a replica when somebody deletes it.
	OnDelete Pod2UpdateStrategyType = "OnDelete"
)

// Pod2UpdateStrategy says how a change reaches the replicas.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",message="rollingUpdate goes with type RollingUpdate only",fieldPath=".rollingUpdate"
type Pod2UpdateStrategy struct {
	// RollingUpdate (the default), Recreate or OnDelete.
	//
	// +optional
	// +default="RollingUpdate"
	Type Pod2UpdateStrategyType `json:"type,omitempty"`

	// Bounds of a RollingUpdate.
	//
	// +optional
	RollingUpdate *Pod2RollingUpdate `json:"rollingUpdate,omitempty"`

	// IfPossible (the default) changes container images, cpu and memory, and
	// labels in the running pod, which keeps its node and its volumes; every other
	// change replaces the pod, and so does Never. The event says which and why.
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
	// InPlaceNever replaces it.
	InPlaceNever InPlacePolicy = "Never"
)

// Pod2RollingUpdate bounds a RollingUpdate.
type Pod2RollingUpdate struct {
	// How many replicas there may be besides, for the time of the update: a
	// number, or a percentage of replicas, rounded up. Default 0. They have the
	// ordinals that follow the last replica's, addresses of their own, and go when
	// the update is done.
	//
	// +optional
	// +default=0
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[0-9]{1,2})%$')",message="a number from 0 to 100000 or a percentage from 0% to 100%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// How many replicas the update may make unavailable: a number, or a percentage
	// of replicas, rounded down. Default 1. Where that and maxSurge come to 0, it
	// counts as 1, for nothing else would let the update proceed. A replica of an
	// old template that is not Ready is replaced at once and never counts. One
	// that is Ready, but not for minReadySeconds yet, counts as unavailable. A
	// replica that was scaled away and serves stays until as many others do.
	//
	// +optional
	// +default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[0-9]{1,2})%$')",message="a number from 0 to 100000 or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// Only replicas from the one in this place on are updated, counted from the
	// first; the others stay at status.currentRevision, and come back with it.
	// Default 0: all are. From replicas on, none is.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=200000
	Partition int32 `json:"partition,omitempty"`
}

// Pod2Status counts the replicas. While nothing but numbers changes, it is
// written four times a second at most.
type Pod2Status struct {
	// Pods of this Pod2 that exist and are neither terminating nor over.
	// +optional
	Replicas int32 `json:"replicas"`
	// Of these, the ready ones.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// Of these, the ones ready for minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// Of these, the ones with the template and the networks of the spec.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// Name of the ControllerRevision from which all replicas were last made.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// Name of the ControllerRevision of the spec.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// Label selector of the pods, for autoscalers and disruption budgets.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Names of the Networks of the spec, for `kubectl get`.
	// +optional
	Networks string `json:"networks,omitempty"`
	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// How often the name of a revision was taken by other content.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// When an update or a change of replicas last came a step further.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`
	// Ready: every replica exists, has the template of the spec and is available;
	// otherwise the reason says what is missing. Available: so many replicas are
	// available as an update has to leave. Progressing: an update or a change of
	// replicas comes on, or is complete. ClaimsResized, where there are
	// volumeClaimTemplates: no claim is smaller than its template. NetworkDNS: the
	// replicas have their DNS names on every Network; it is Unknown while no
	// replica has an address.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Pod2List is a list of Pod2s.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type Pod2List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Pod2 `json:"items"`
}
