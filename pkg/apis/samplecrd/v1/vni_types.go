package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VNI is a VXLAN Network Identifier (RFC 7348) that a Network has. Its name is
// the number, so no two Networks can have the same one. The controller creates
// it, and deletes it once the Network is gone.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=vnis,singular=vni,scope=Cluster
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, sample project"
// +kubebuilder:printcolumn:name="NAMESPACE",type=string,JSONPath=`.spec.network.namespace`
// +kubebuilder:printcolumn:name="NETWORK",type=string,JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[1-9][0-9]{0,7}$') && int(self.metadata.name) <= 16777215",message="the name of a VNI must be a number from 1 to 16777215",fieldPath=".metadata"
type VNI struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the Network that has the number. It is immutable.
	// +required
	Spec VNISpec `json:"spec"`
}

// VNISpec names the Network that has the number.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: a VNI belongs to one Network for as long as it exists"
type VNISpec struct {
	// network is the Network that has the number.
	// +required
	Network NetworkReference `json:"network"`
}

// NetworkReference identifies a Network by namespace, name and UID.
type NetworkReference struct {
	// namespace is the namespace of the Network.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is the name of the Network.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// uid is the UID of the Network. A Network that was recreated with the same
	// name has another UID.
	// +required
	UID types.UID `json:"uid"`
}

// VNIList is a list of VNIs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type VNIList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []VNI `json:"items"`
}
