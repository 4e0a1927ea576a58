// Package v1alpha1 is the API group view.samplecrd.k8s.io, which pod2-apiserver serves. Its
// objects are computed, not stored.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.samplecrd.view.v1alpha1
// +groupName=view.samplecrd.k8s.io
package v1alpha1
