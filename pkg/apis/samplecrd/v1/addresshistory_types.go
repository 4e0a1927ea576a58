package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AddressHistory records which pods held the addresses of one Network earlier.
// A Network has several AddressHistories: <network>-0, <network>-1 and so on.
// The controller writes the newest one, and deletes the oldest one. The
// current holders are in the AddressBlocks. Nothing depends on an
// AddressHistory, so you may delete it. Only the controller may change it.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=addresshistories,singular=addresshistory,shortName=ah,scope=Namespaced
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, sample project"
// +kubebuilder:printcolumn:name="NETWORK",type=string,JSONPath=`.metadata.labels.samplecrd\.k8s\.io/network`
// +kubebuilder:printcolumn:name="SINCE",type=date,JSONPath=`.spec.since`
// +kubebuilder:printcolumn:name="THROUGH",type=date,JSONPath=`.spec.through`
type AddressHistory struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists the records.
	// +required
	Spec AddressHistorySpec `json:"spec"`
}

// AddressHistorySpec lists the records.
type AddressHistorySpec struct {
	// since is the time from which the records are complete, except for gaps. It
	// is the time at which the AddressHistory with the next lower number ends. If
	// a number is missing, that AddressHistory was deleted.
	// +required
	Since metav1.Time `json:"since"`
	// through is the time up to which the records are complete, except for gaps.
	// +required
	Through metav1.Time `json:"through"`
	// holders is a checksum of the holders of all addresses at the time in
	// through. A controller that starts compares it with the AddressBlocks, to
	// find out whether records are missing. It is empty while records are still
	// to be written.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Holders string `json:"holders,omitempty"`
	// blocks is a checksum of the versions of the AddressBlocks at the time in
	// through.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Blocks string `json:"blocks,omitempty"`
	// records are in the order in which the controller wrote them. Defaults to
	// none.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +default=[]
	// +optional
	Records []AddressRecord `json:"records"`
}

// AddressRecord says that a pod held an address, or that records are missing.
//
// +kubebuilder:validation:XValidation:rule="has(self.gap) && self.gap ? !has(self.address) && has(self.from) : has(self.address) && has(self.pod)",message="address and pod are required, unless gap is true"
type AddressRecord struct {
	// gap means that records between the times in from and until may be missing:
	// the controller was killed before it wrote them. Such a record has no
	// address. Defaults to false.
	// +optional
	Gap bool `json:"gap,omitempty"`
	// address is the IP address, without prefix length.
	// +optional
	// +kubebuilder:validation:MaxLength=39
	Address string `json:"address,omitempty"`
	// pod is the name of the pod that held the address.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`
	// podUID is the UID of the pod. It is empty if the controller did not see the
	// pod hold the address.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// owner is the controller of the pod. It is empty for a pod without a
	// controller.
	// +optional
	Owner AddressOwner `json:"owner,omitzero"`
	// node is the name of the node that the pod ran on. It is empty if the pod was
	// not scheduled, or if the controller does not know.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// from is the time at which the pod got the address. It is empty if the
	// controller did not see the pod hold the address.
	// +optional
	From *metav1.Time `json:"from,omitempty"`
	// until is the time at which the controller took the address back. The pod
	// terminated before that.
	// +required
	Until metav1.Time `json:"until"`
}

// AddressHistoryList is a list of AddressHistories.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type AddressHistoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []AddressHistory `json:"items"`
}
