// Package v1 is the API of CronTab, the stored version.
//
// The doc comments of its types are the manual: they become the descriptions
// that `kubectl explain crontab.spec` prints.
//
// +k8s:deepcopy-gen=package
// +k8s:register-gen=package
// +k8s:defaulter-gen=TypeMeta
// +groupName=stable.example.com
package v1
