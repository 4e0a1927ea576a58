package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Address is one address of a Network that is in use: Bound, Reserved or Resting. A free
// address has no Address. Its name is <network>-<address>. In the name, an IPv6 address is
// at full length, with "-" in place of ":". Addresses are read-only: the controller changes
// the AddressBlocks, from which they are computed.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Address struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the address, and the pod that has it.
	Spec AddressSpec `json:"spec"`
	// status is the state of the address.
	Status AddressStatus `json:"status"`
}

// AddressSpec is the address, and the pod that has it.
type AddressSpec struct {
	// network is the name of the Network.
	Network string `json:"network"`
	// address is the IP address, without prefix length.
	Address string `json:"address"`
	// mac is the hardware address that belongs to the IP address.
	MAC string `json:"mac"`
	// pod is the name of the pod that holds the address, or held it last.
	Pod string `json:"pod"`
	// podUID is the UID of the pod that holds the address. It is empty unless state
	// is Bound.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// owner is the controller of the pod. It is empty for a pod without a controller.
	// +optional
	Owner AddressOwner `json:"owner,omitzero"`
}

// AddressOwner is the controller of a pod.
type AddressOwner struct {
	// kind is the kind of the controller.
	// +optional
	Kind string `json:"kind,omitempty"`
	// name is the name of the controller.
	// +optional
	Name string `json:"name,omitempty"`
}

// AddressStatus is the state of an address.
type AddressStatus struct {
	// state is Bound, Reserved or Resting, as in an AddressBlock.
	State v1.AddressState `json:"state"`
	// since is the time at which the address entered this state.
	Since metav1.Time `json:"since"`
	// until is the end of the rest of a Resting address. From then on, another pod can
	// get it. The end itself is not an event of a watch. The event comes when the
	// controller removes the entry, or gives the address to a pod. until is empty if
	// the Network is being deleted.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// node is the name of the node of the pod. It is empty unless state is Bound and
	// the pod is scheduled.
	// +optional
	Node string `json:"node,omitempty"`
}

// AddressList is a list of Addresses.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type AddressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Address `json:"items"`
}

// Pod2Plan asks for the first step that the controller would take if a Pod2 was applied. As a
// SubjectAccessReview, it can only be created, and is not stored. The answer is in status.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Pod2Plan struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	Spec Pod2PlanSpec `json:"spec"`
	// status is the answer.
	// +optional
	Status Pod2PlanStatus `json:"status,omitzero"`
}

// Pod2PlanSpec is the question.
type Pod2PlanSpec struct {
	// pod2 is a complete Pod2, as in a manifest, in the namespace of the Pod2Plan. The server
	// sets its defaults, but does not run the validation rules of the API server.
	Pod2 runtime.RawExtension `json:"pod2"`
}

// Pod2PlanStatus is the answer.
type Pod2PlanStatus struct {
	// actions are the writes of the controller's first step, in their order, as
	// `kubectl pod2 plan` prints them. The list is empty if the controller would do
	// nothing. The next step depends on the results of the first.
	// +optional
	// +listType=atomic
	Actions []string `json:"actions,omitempty"`
}
