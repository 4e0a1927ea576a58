package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod2 is a replicated workload whose replicas keep their name and their
// addresses, on any number of Networks. Replica i is the pod <name>-<i>. If
// that pod is deleted, evicted or updated, the next pod has the same name and,
// on every Network, the same address.
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
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 57 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a Pod2 must be a DNS label of at most 57 characters: its replicas are named <name>-<ordinal>",fieldPath=".metadata"
type Pod2 struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec declares the replicas.
	// +required
	Spec Pod2Spec `json:"spec"`
	// status is the observed state of the Pod2. Only the controller writes it.
	// +optional
	Status Pod2Status `json:"status,omitempty"`
}

// Pod2Spec declares the replicas.
//
// +kubebuilder:validation:XValidation:rule="self.?ordinals.?start.orValue(0) == oldSelf.?ordinals.?start.orValue(0)",message="ordinals.start is immutable: a change would replace every replica at once, with one that has another name",fieldPath=".ordinals.start"
// +kubebuilder:validation:XValidation:rule="(has(self.volumeClaimTemplates) && self.volumeClaimTemplates.size() > 0) == (has(oldSelf.volumeClaimTemplates) && oldSelf.volumeClaimTemplates.size() > 0)",message="volumeClaimTemplates must not be added, removed, renamed or reordered: existing replicas could not follow. Create another Pod2 instead",fieldPath=".volumeClaimTemplates"
type Pod2Spec struct {
	// replicas is the desired number of replicas, from 0 to 100000. An autoscaler
	// may change it at any time (`kubectl scale pod2 web --replicas=5`). Defaults
	// to 1.
	//
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Replicas *int32 `json:"replicas,omitempty"`

	// ordinals controls how replicas are numbered. It is immutable.
	//
	// +optional
	Ordinals *Pod2Ordinals `json:"ordinals,omitempty"`

	// reserveOrdinals lists ordinals to leave out. With replicas 3 and
	// reserveOrdinals [1], the replicas are 0, 2 and 3. Use it to remove one
	// chosen replica. Its addresses stay Reserved, as those of a scaled-down
	// replica do. Defaults to none.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:Minimum=0
	ReserveOrdinals []int32 `json:"reserveOrdinals,omitempty"`

	// podManagementPolicy controls the order in which replicas are created and
	// deleted. "Parallel" creates and deletes all at once. "OrderedReady" creates
	// a replica once all before it are available, and deletes it once the one
	// after it is gone. updateStrategy bounds updates in both cases. Defaults to
	// "Parallel".
	//
	// +optional
	// +default="Parallel"
	PodManagementPolicy PodManagementPolicyType `json:"podManagementPolicy,omitempty"`

	// networks lists the Networks, of the same namespace, on which every replica
	// has an address. The controller creates replicas with a scheduling gate, and
	// removes the gate once their addresses are bound. A change replaces replicas
	// as a change of template does. Defaults to none.
	//
	// On each Network, a replica has the DNS name
	// <pod2>-<ordinal>.<pod2>-<network>, through a headless Service that the
	// controller creates. The name resolves for as long as the replica exists,
	// whether or not it is ready.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(n, has(n.interface)).all(n, self.exists_one(m, has(m.interface) && m.interface == n.interface))",message="the interfaces of networks must be unique"
	Networks []Pod2Network `json:"networks,omitempty"`

	// template is the pod template of the replicas. The name and the hostname of a
	// replica are <pod2>-<ordinal>. The controller adds the Pod2's own labels,
	// unless the template has other values for them. It also adds the labels
	// samplecrd.k8s.io/pod2, samplecrd.k8s.io/pod-index and
	// samplecrd.k8s.io/pod-template-hash.
	//
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// serviceName is the name of a headless Service of the same namespace. It
	// gives each replica the DNS name <pod2>-<ordinal>.<serviceName>, as with a
	// StatefulSet. You create the Service yourself. Defaults to none.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	ServiceName string `json:"serviceName,omitempty"`

	// volumeClaimTemplates are the PersistentVolumeClaims (PVCs) of each replica,
	// as in a StatefulSet. The controller creates the PVC
	// <template>-<pod2>-<ordinal> before the replica. The replica has it as its
	// volume <template>, and the PVC outlives the replica. An existing PVC with
	// that name is used, unless it has another owner: then the replica waits, and
	// the condition Ready says so. PVCs have the labels samplecrd.k8s.io/pod2 and
	// samplecrd.k8s.io/pod-index.
	//
	// volumeClaimTemplates are immutable except for
	// spec.resources.requests.storage, which may only grow. Existing PVCs grow if
	// their StorageClass allows it; the condition ClaimsResized names those that
	// cannot. A change never replaces a replica. At most 8 templates are allowed,
	// because the API server limits the cost of validation rules. Defaults to
	// none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.metadata) && has(t.metadata.name) && has(t.spec) && has(t.spec.resources) && has(t.spec.resources.requests) && 'storage' in t.spec.resources.requests && type(t.spec.resources.requests['storage']) == string)",message="each volumeClaimTemplate must have metadata.name, and spec.resources.requests.storage as a string such as 1Gi"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2].all(i, [1, 2, 3, 4, 5, 6, 7].all(j, i >= j || j >= self.size() || self[i].metadata.name != self[j].metadata.name))",message="volumeClaimTemplates names must be unique: they are the names of a replica's volumes"
	// +kubebuilder:validation:XValidation:rule="[3, 4, 5, 6].all(i, [4, 5, 6, 7].all(j, i >= j || j >= self.size() || self[i].metadata.name != self[j].metadata.name))",message="volumeClaimTemplates names must be unique: they are the names of a replica's volumes"
	// +kubebuilder:validation:XValidation:rule="self.size() == oldSelf.size() && [0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || self[i].metadata.name == oldSelf[i].metadata.name)",message="volumeClaimTemplates must not be added, removed, renamed or reordered: existing replicas could not follow. Create another Pod2 instead"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || i >= oldSelf.size() || has(self[i].metadata.labels) == has(oldSelf[i].metadata.labels) && (!has(self[i].metadata.labels) || self[i].metadata.labels == oldSelf[i].metadata.labels) && has(self[i].metadata.annotations) == has(oldSelf[i].metadata.annotations) && (!has(self[i].metadata.annotations) || self[i].metadata.annotations == oldSelf[i].metadata.annotations) && has(self[i].spec.selector) == has(oldSelf[i].spec.selector) && (!has(self[i].spec.selector) || self[i].spec.selector == oldSelf[i].spec.selector) && has(self[i].spec.dataSource) == has(oldSelf[i].spec.dataSource) && (!has(self[i].spec.dataSource) || self[i].spec.dataSource == oldSelf[i].spec.dataSource) && has(self[i].spec.dataSourceRef) == has(oldSelf[i].spec.dataSourceRef) && (!has(self[i].spec.dataSourceRef) || self[i].spec.dataSourceRef == oldSelf[i].spec.dataSourceRef) && has(self[i].spec.resources.limits) == has(oldSelf[i].spec.resources.limits) && (!has(self[i].spec.resources.limits) || self[i].spec.resources.limits == oldSelf[i].spec.resources.limits))",message="volumeClaimTemplates are immutable except for spec.resources.requests.storage: existing PersistentVolumeClaims could not follow"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || i >= oldSelf.size() || has(self[i].spec.accessModes) == has(oldSelf[i].spec.accessModes) && (!has(self[i].spec.accessModes) || self[i].spec.accessModes == oldSelf[i].spec.accessModes) && has(self[i].spec.volumeMode) == has(oldSelf[i].spec.volumeMode) && (!has(self[i].spec.volumeMode) || self[i].spec.volumeMode == oldSelf[i].spec.volumeMode))",message="volumeClaimTemplates are immutable except for spec.resources.requests.storage: existing PersistentVolumeClaims could not follow"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || i >= oldSelf.size() || has(self[i].spec.storageClassName) == has(oldSelf[i].spec.storageClassName) && (!has(self[i].spec.storageClassName) || self[i].spec.storageClassName == oldSelf[i].spec.storageClassName) && has(self[i].spec.volumeAttributesClassName) == has(oldSelf[i].spec.volumeAttributesClassName) && (!has(self[i].spec.volumeAttributesClassName) || self[i].spec.volumeAttributesClassName == oldSelf[i].spec.volumeAttributesClassName) && has(self[i].spec.volumeName) == has(oldSelf[i].spec.volumeName) && (!has(self[i].spec.volumeName) || self[i].spec.volumeName == oldSelf[i].spec.volumeName))",message="volumeClaimTemplates are immutable except for spec.resources.requests.storage: existing PersistentVolumeClaims could not follow"
	// +kubebuilder:validation:XValidation:rule="[0, 1, 2, 3, 4, 5, 6, 7].all(i, i >= self.size() || i >= oldSelf.size() || quantity(self[i].spec.resources.requests['storage']).compareTo(quantity(oldSelf[i].spec.resources.requests['storage'])) >= 0)",message="spec.resources.requests.storage of a volumeClaimTemplate may only grow: volumes cannot shrink"
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	// persistentVolumeClaimRetentionPolicy controls when PVCs of
	// volumeClaimTemplates are deleted. PVCs that were created for a surge replica
	// are deleted with it in any case. Defaults to keeping all others.
	//
	// +optional
	PersistentVolumeClaimRetentionPolicy *Pod2ClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// updateStrategy controls how a changed template or Network reaches the
	// replicas. Defaults to a RollingUpdate.
	//
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy Pod2UpdateStrategy `json:"updateStrategy,omitempty"`

	// minReadySeconds is the number of seconds for which a replica must be ready
	// without interruption before it counts as available. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// paused stops an update. Scaling continues. A replica that is lost meanwhile
	// is recreated with the template of the spec if the other replicas show that
	// the update has passed it, and with status.currentRevision otherwise. If you
	// change the template while it is paused, a lost replica is recreated with
	// status.currentRevision, the revision before the update that you paused.
	// Defaults to false.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`

	// progressDeadlineSeconds is the number of seconds without progress after
	// which the condition Progressing becomes False. Paused time does not count.
	// Defaults to 600.
	//
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// revisionHistoryLimit is the number of old revisions to keep for a rollback,
	// in addition to those in use. Defaults to 10.
	//
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// Pod2Status is the observed state of a Pod2. If only counts and reasons of
// False conditions change, the controller writes the status at most twice a
// second, and once a second with 1,000 replicas.
type Pod2Status struct {
	// replicas is the number of pods of this Pod2 that exist and are neither
	// terminating nor terminated.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of these pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is the number of these pods that have been ready for
	// minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// updatedReplicas is the number of these pods that have the template and the
	// networks of the spec.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// currentRevision is the name of the ControllerRevision from which all
	// replicas were last created.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// updateRevision is the name of the ControllerRevision of the spec.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// selector is the label selector of the pods, for autoscalers and
	// PodDisruptionBudgets.
	// +optional
	Selector string `json:"selector,omitempty"`
	// networks lists the names of the spec's Networks, for `kubectl get`.
	// +optional
	Networks string `json:"networks,omitempty"`
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// collisionCount is the number of times that a revision could not get its
	// name, because a revision with other content had it.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// lastProgressTime is the time at which an update or a change of replicas last
	// made progress.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`
	// conditions are the latest observations of the Pod2's state. Ready: every
	// replica exists, is available, and has the template of the spec unless a
	// partition or OnDelete keeps it from an update. If it is False, the reason
	// says why. Available: at least as many replicas are available as an update
	// must keep available. Progressing: an update or a change of replicas makes
	// progress, or is complete as far as updateStrategy allows. ClaimsResized, if
	// there are volumeClaimTemplates: no PVC is smaller than its template.
	// DNSPublished: the replicas have their DNS names on every Network. It is
	// Unknown while no replica has an address.
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
