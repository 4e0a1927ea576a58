package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AddressSlice says on which nodes up to 50 addresses are, as an EndpointSlice
// does for a Service. The addresses are those of running pods on one Overlay
// Network, or those of the nodes themselves. pod2-agent reads the
// AddressSlices of the Networks on its node. Only the controller may change
// them. It deletes those that became empty.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=addressslices,singular=addressslice,scope=Namespaced
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, sample project"
// +kubebuilder:printcolumn:name="NETWORK",type=string,JSONPath=`.metadata.labels.samplecrd\.k8s\.io/network`
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.spec.overlay.vni`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type AddressSlice struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists the addresses.
	// +required
	Spec AddressSliceSpec `json:"spec"`
}

// AddressSliceSpec lists the addresses.
type AddressSliceSpec struct {
	// overlay has the properties of the Network that agents need. It is set in
	// exactly one AddressSlice of each Overlay Network.
	// +optional
	Overlay *OverlayProperties `json:"overlay,omitempty"`
	// locations maps the IP address of each pod, or node, to the IP address at
	// which other nodes reach the node. An address is in one AddressSlice only.
	// Defaults to none.
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=50
	// +default={}
	// +optional
	Locations map[string]string `json:"locations"`
}

// OverlayProperties are the properties of an Overlay Network that agents need.
type OverlayProperties struct {
	// vni is status.vni of the Network.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`
	// cidr is spec.cidr of the Network.
	// +required
	// +kubebuilder:validation:MaxLength=43
	CIDR string `json:"cidr"`
	// gateway is status.gateway of the Network. It is empty for a /32.
	// +optional
	// +kubebuilder:validation:MaxLength=39
	Gateway string `json:"gateway,omitempty"`
	// egress is spec.egress of the Network.
	// +required
	Egress EgressMode `json:"egress"`
	// mtu is spec.mtu of the Network. If it is unset, each agent chooses an MTU
	// that fits its node.
	// +optional
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
}

// AddressSliceList is a list of AddressSlices.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type AddressSliceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []AddressSlice `json:"items"`
}
