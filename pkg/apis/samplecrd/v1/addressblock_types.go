package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AddressBlock is a page of the ledger: 256 aligned, consecutive addresses of
// one Network, and who holds them. Its name is <network>-<first address>, so
// that no two blocks can cover one address. The controller writes it; read it
// to see who holds what, and leave it alone.
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

	// +required
	Spec AddressBlockSpec `json:"spec"`
}

// AddressBlockSpec says whose addresses the block holds and who has them.
//
// +kubebuilder:validation:XValidation:rule="self.network == oldSelf.network && self.cidr == oldSelf.cidr",message="network and cidr of a block are immutable"
// +kubebuilder:validation:XValidation:rule="self.networkUID == oldSelf.networkUID || !self.sealed && self.entries.all(e, e.state != 'Bound')",message="networkUID may change only in an unsealed block without Bound entries",fieldPath=".networkUID"
// +kubebuilder:validation:XValidation:rule="!oldSelf.sealed || self.sealed",message="a sealed block stays sealed",fieldPath=".sealed"
// +kubebuilder:validation:XValidation:rule="!self.sealed || size(self.entries) == 0",message="only an empty block is sealed, and a sealed one takes no entry",fieldPath=".sealed"
type AddressBlockSpec struct {
	// Name of the Network.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Network string `json:"network"`
	// UID of the Network: one recreated under the same name is another. It changes
	// only when a Network inherits a block that was restored from a backup.
	// +required
	NetworkUID types.UID `json:"networkUID"`
	// The aligned addresses the block covers: a /24 or, for IPv6, a /120,
	// whatever the CIDR of the Network.
	// +required
	// +kubebuilder:validation:MaxLength=43
	CIDR string `json:"cidr"`
	// A sealed block is empty and takes no entry any more: the Network is being
	// removed.
	// +default=false
	// +optional
	Sealed bool `json:"sealed"`
	// Who has which address, in the order of the addresses. An address that is
	// not listed is free.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +default=[]
	// +optional
	Entries []AddressEntry `json:"entries"`
}

// AddressState is what an entry of the ledger says about its address.
//
// +kubebuilder:validation:Enum=Bound;Reserved;Resting
type AddressState string

const (
	// AddressBound says that the pod with podUID holds the address, or held it and
	// is not yet confirmed to be over.
	AddressBound AddressState = "Bound"
	// AddressReserved says that the pod is over, and its owner keeps stable
	// names and still has this replica: the next pod of that name gets the
	// address. Every entry of a block that was restored from a backup is
	// Reserved for an hour, for a pod of the same name and owner.
	AddressReserved AddressState = "Reserved"
	// AddressResting says that the pod is over; until reuseDelaySeconds have
	// passed since then only a pod of the same name and owner gets the
	// address, or a replica of that name, if no other Pod2 or StatefulSet
	// keeps it.
	AddressResting AddressState = "Resting"
)

// AddressEntry binds one address.
type AddressEntry struct {
	// The address, without prefix length.
	// +required
	// +kubebuilder:validation:MaxLength=39
	Address string `json:"address"`
	// Name of the pod that has, or last had, the address.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`
	// UID of the pod that holds the address; empty unless the state is Bound.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// The controller of the pod; empty for a bare pod.
	// +optional
	Owner AddressOwner `json:"owner,omitzero"`
	// +required
	State AddressState `json:"state"`
	// When the address came into this state.
	// +required
	Since metav1.Time `json:"since"`
}

// AddressOwner is the controller of a pod, without UID: deleting and
// recreating it, or restoring it from a backup, keeps the addresses.
type AddressOwner struct {
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
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
