// Package v1 is the API of Pod2: Networks, the AddressBlocks that record their
// addresses, and Pod2s, whose replicas keep their addresses.
//
// The doc comments of its types are the manual: they become the descriptions
// that `kubectl explain network.spec` and `kubectl explain pod2.spec` print.
//
// +k8s:deepcopy-gen=package
// +k8s:register-gen=package
// +k8s:defaulter-gen=TypeMeta
// +groupName=samplecrd.k8s.io
package v1
