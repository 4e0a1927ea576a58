// Package v1beta1 is the API of CronTab for older clients. The schema is that of v1,
// and a conversion changes only the version.
//
// +k8s:deepcopy-gen=package
// +k8s:register-gen=package
// +k8s:defaulter-gen=TypeMeta
// +groupName=stable.example.com
package v1beta1
