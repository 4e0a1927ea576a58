package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VNI is a VXLAN Network Identifier (RFC 7348) that a Network has: the name is
// the number, so that no two can have one. The controller writes it, and takes
// it back once the Network is gone.
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
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[1-9][0-9]{0,7}$') && int(self.metadata.name) <= 16777215",message="the name of a VNI is a number from 1 to 16777215",fieldPath=".metadata"
type VNI struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec VNISpec `json:"spec"`
}

// VNISpec says which Network has the number.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a VNI is of one Network for as long as it exists"
type VNISpec struct {
	// +required
	Network NetworkReference `json:"network"`
}

// NetworkReference is one incarnation of a Network.
type NetworkReference struct {
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// One recreated under the same name is another.
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
