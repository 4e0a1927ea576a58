// Package v1 is the API of NetworkAttachmentDefinition, which Multus reads. The
// Kubernetes Network Custom Resource Definition De-facto Standard (version 1.3, section
// 3.2) defines it. Multus installs the CustomResourceDefinition; Pod2 does not.
//
// +k8s:deepcopy-gen=package
// +k8s:register-gen=package
// +groupName=k8s.cni.cncf.io
// +groupGoName=K8sCniCncfIo
package v1
