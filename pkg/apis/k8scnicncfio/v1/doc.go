// Package v1 is the API of NetworkAttachmentDefinition, as the Kubernetes Network
// Custom Resource Definition De-facto Standard (version 1.3, section 3.2) has it:
// that of Multus, whose CustomResourceDefinition is not ours to install.
//
// +k8s:deepcopy-gen=package
// +k8s:register-gen=package
// +groupName=k8s.cni.cncf.io
// +groupGoName=K8sCniCncfIo
package v1
