package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Sidecar adds containers, volumes and Networks to pods of its namespace when
// they are created. The admission policy pod2-sidecars adds them, in the
// namespaces with the label samplecrd.k8s.io/sidecars: enabled. Changed images
// reach running pods, see updateStrategy. All other changes wait until a pod
// is recreated.
//
// A new generation is used once the API server accepts a pod with it, in a dry
// run. Until then, pods get the last generation that it accepted.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=sidecars,singular=sidecar,scope=Namespaced,categories=all
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, sample project"
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="UP-TO-DATE",type=integer,JSONPath=`.status.upToDate`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="The reason of the condition Ready."
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a Sidecar must be a DNS label of at most 63 characters",fieldPath=".metadata"
type Sidecar struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec declares the pods and the additions.
	// +required
	Spec SidecarSpec `json:"spec"`
	// status is the observed state of the Sidecar. Only the controller writes it.
	// +optional
	Status SidecarStatus `json:"status,omitempty"`
}

// WhenNotReadyType says how pods are created before a Sidecar was ever Ready.
//
// +kubebuilder:validation:Enum=Refuse;Skip
type WhenNotReadyType string

const (
	// RefusePods refuses the pods that the Sidecar selects.
	RefusePods WhenNotReadyType = "Refuse"
	// SkipSidecar creates the pods without the Sidecar.
	SkipSidecar WhenNotReadyType = "Skip"
)

// SidecarSpec declares the pods and the additions.
type SidecarSpec struct {
	// selector lists the labels that a pod must have, with these values.
	//
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Selector map[string]string `json:"selector"`

	// initContainers are added to the init containers of the pod. One with
	// restartPolicy Always is a native sidecar: it keeps running beside the
	// containers. If several Sidecars add some, they are in the order of the
	// Sidecars' names. Defaults to none.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	InitContainers []corev1.Container `json:"initContainers,omitempty"`

	// injectBefore places initContainers before those of the pod itself. Defaults
	// to false: after them.
	//
	// +optional
	InjectBefore bool `json:"injectBefore,omitempty"`

	// containers are added after the containers of the pod. If several Sidecars
	// add some, they are in the order of the Sidecars' names. A name that the pod
	// already has makes the API server refuse the pod. Defaults to none.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Containers []corev1.Container `json:"containers,omitempty"`

	// volumes are added to the volumes of the pod. A name that the pod already has
	// makes the API server refuse the pod. Defaults to none.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// targetContainers names the pod's own containers that get env and
	// volumeMounts. Init containers and containers of Sidecars never do. Defaults
	// to all containers.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	TargetContainers []string `json:"targetContainers,omitempty"`

	// env is added to the pod's own containers. A variable that a container
	// already has keeps its value. Two Sidecars of one pod must not set the same
	// variable. Defaults to none.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumeMounts are added to the pod's own containers. Defaults to none.
	//
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=16
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// networks lists the Networks, of the same namespace, that the pod joins too.
	// Defaults to none.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Networks []SidecarNetwork `json:"networks,omitempty"`

	// whenNotReady controls the selected pods while no generation of the Sidecar
	// was Ready yet. "Refuse" makes the API server refuse them; a Deployment or a
	// Pod2 tries again. "Skip" creates them without the Sidecar. Defaults to
	// "Refuse".
	//
	// +optional
	// +default="Refuse"
	WhenNotReady WhenNotReadyType `json:"whenNotReady,omitempty"`

	// updateStrategy controls how changed images reach running pods. Defaults to
	// InPlace, one pod at a time.
	//
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy SidecarUpdateStrategy `json:"updateStrategy,omitempty"`
}

// SidecarUpdateType says whether running pods are changed.
//
// +kubebuilder:validation:Enum=InPlace;OnRecreate
type SidecarUpdateType string

const (
	// UpdateInPlace changes images in running pods.
	UpdateInPlace SidecarUpdateType = "InPlace"
	// UpdateOnRecreate changes no running pod.
	UpdateOnRecreate SidecarUpdateType = "OnRecreate"
)

// SidecarUpdateStrategy controls how changed images reach running pods.
type SidecarUpdateStrategy struct {
	// type is "InPlace" or "OnRecreate". "InPlace" changes the images of
	// containers, and of init containers with restartPolicy Always, in running
	// pods: these containers restart. A pod that differs in more than images is
	// not changed. "OnRecreate" changes no running pod. Defaults to "InPlace".
	//
	// +optional
	// +default="InPlace"
	Type SidecarUpdateType `json:"type,omitempty"`

	// maxUnavailable is the number of pods with the Sidecar that may be
	// unavailable during an update: a number, or a percentage of these pods,
	// rounded down. It counts as at least 1. Defaults to 1.
	//
	// A pod that is not Ready counts as unavailable, and gets its images at once.
	// A replica of a Pod2 is changed only within the bounds of the Pod2, too.
	//
	// +optional
	// +default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 100000 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number from 1 to 100000 or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// partition is the number of pods that keep their images. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Partition int32 `json:"partition,omitempty"`

	// paused stops the update of running pods. New pods still get the Sidecar.
	// Defaults to false.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// SidecarStatus is the observed state of a Sidecar.
type SidecarStatus struct {
	// observedGeneration is the generation that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// matched is the number of pods that have the Sidecar, of any generation. The
	// Sidecar matched them when they were created.
	// +optional
	Matched int32 `json:"matched"`

	// upToDate is the number of pods that have the generation of injected.
	// +optional
	UpToDate int32 `json:"upToDate"`

	// ready is the number of pods that have the Sidecar and are Ready. A pod does
	// not count while a container is yet to restart with another image.
	// +optional
	Ready int32 `json:"ready"`

	// injected is the generation that new pods get: the last one that was Ready.
	// +optional
	Injected *SidecarGeneration `json:"injected,omitempty"`

	// conditions has Ready: the API server accepts a pod with this generation, and
	// no other Sidecar conflicts with it. Updated is False while the API server
	// refuses the images of this generation for a running pod that no Pod2 owns,
	// and is removed afterwards.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SidecarGeneration is a generation of a Sidecar.
type SidecarGeneration struct {
	// generation is its number. A change of whenNotReady or updateStrategy alone
	// leaves it as it was.
	// +required
	Generation int64 `json:"generation"`

	// inPlaceFrom is the first generation that differs from this one in images
	// only. The pods of the generations since then can get this one in place.
	// +optional
	InPlaceFrom int64 `json:"inPlaceFrom,omitempty"`

	// spec is its spec.
	// +required
	Spec SidecarSpec `json:"spec"`
}

// SidecarNetwork is a Network that the pods of a Sidecar join.
type SidecarNetwork struct {
	// name is the name of a Network of the same namespace.
	//
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// SidecarList is a list of Sidecars.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type SidecarList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Sidecar `json:"items"`
}
