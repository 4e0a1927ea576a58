package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AddressBlock records 256 aligned, consecutive addresses of one Network, and
// which pod holds each. Its name is <network>-<first address>, so two
// AddressBlocks cannot cover one address. Read it to see which pod holds an
// address. Only the controller may change it.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=addressblocks,singular=addressblock,shortName=ab,scope=Namespaced
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, sample project"
// +kubebuilder:printcolumn:name="NETWORK",type=string,JSONPath=`.spec.network`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.cidr`
// +kubebuilder:printcolumn:name="SEALED",type=boolean,JSONPath=`.spec.sealed`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type AddressBlock struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the Network and lists the entries.
	// +required
	Spec AddressBlockSpec `json:"spec"`
}

// AddressBlockSpec names the Network and lists the entries.
//
// +kubebuilder:validation:XValidation:rule="self.network == oldSelf.network && self.cidr == oldSelf.cidr",message="network and cidr are immutable"
// +kubebuilder:validation:XValidation:rule="self.networkUID == oldSelf.networkUID || !self.sealed && self.entries.all(e, e.state != 'Bound')",message="networkUID may change only in an unsealed AddressBlock without Bound entries",fieldPath=".networkUID"
// +kubebuilder:validation:XValidation:rule="!oldSelf.sealed || self.sealed",message="sealed is immutable once it is true",fieldPath=".sealed"
// +kubebuilder:validation:XValidation:rule="!self.sealed || size(self.entries) == 0",message="a sealed AddressBlock must not have entries",fieldPath=".sealed"
type AddressBlockSpec struct {
	// network is the name of the Network. It is immutable.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Network string `json:"network"`
	// networkUID is the UID of the Network. A Network that was recreated with the
	// same name has another UID. networkUID changes only when a Network inherits
	// an AddressBlock that was restored from a backup.
	// +required
	NetworkUID types.UID `json:"networkUID"`
	// cidr is the range of aligned addresses that the AddressBlock covers: a /24
	// or, for IPv6, a /120, for a Network of any size. It is immutable.
	// +required
	// +kubebuilder:validation:MaxLength=43
	CIDR string `json:"cidr"`
	// sealed marks an AddressBlock that is empty and accepts no entry, because its
	// Network is being deleted. It cannot be unset. Defaults to false.
	// +default=false
	// +optional
	Sealed bool `json:"sealed"`
	// entries lists addresses and the pods that hold them, in the order of the
	// addresses. An address without an entry is free. Defaults to none.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +default=[]
	// +optional
	Entries []AddressEntry `json:"entries"`
}

// AddressState is the state of the address in an entry.
//
// +kubebuilder:validation:Enum=Bound;Reserved;Resting
type AddressState string

const (
	// AddressBound means that the pod with podUID holds the address. Or it held
	// the address, and the controller has not yet confirmed that it terminated.
	AddressBound AddressState = "Bound"
	// AddressReserved means that the pod terminated, and its owner keeps names
	// stable. The next pod with this name gets the address. The address of a
	// scaled-down replica is Reserved too, and is reassigned last. Every entry of
	// an AddressBlock that was restored from a backup is Reserved for at least an
	// hour, for a pod with the same name and owner.
	AddressReserved AddressState = "Reserved"
	// AddressResting means that the pod terminated less than reuseDelaySeconds
	// ago. Until they have passed, only a pod with the same name and owner gets
	// the address, or a replica with that name if no other Pod2 or StatefulSet
	// keeps it.
	AddressResting AddressState = "Resting"
)

// AddressEntry records the state of one address.
type AddressEntry struct {
	// address is the IP address, without prefix length.
	// +required
	// +kubebuilder:validation:MaxLength=39
	Address string `json:"address"`
	// pod is the name of the pod that holds the address, or held it last.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`
	// podUID is the UID of the pod that holds the address. It is empty unless
	// state is Bound.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// owner is the controller of the pod. It is empty for a pod without a
	// controller.
	// +optional
	Owner AddressOwner `json:"owner,omitzero"`
	// state is the state of the address: Bound, Reserved or Resting.
	// +required
	State AddressState `json:"state"`
	// since is the time at which the address entered this state.
	// +required
	Since metav1.Time `json:"since"`
}

// AddressOwner is the controller of a pod. It has no UID, so a controller
// keeps its addresses when it is deleted and recreated, or restored from a
// backup.
type AddressOwner struct {
	// kind is the kind of the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// name is the name of the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// AddressBlockList is a list of AddressBlocks.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type AddressBlockList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []AddressBlock `json:"items"`
}
