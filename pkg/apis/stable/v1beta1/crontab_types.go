package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// CronTab runs an image on a schedule. It has the same fields and the same
// behaviour as in stable.example.com/v1.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=crontabs,singular=crontab,shortName=ct,scope=Namespaced,categories=all
// +kubebuilder:printcolumn:name="SPEC",type=string,JSONPath=`.spec.cronSpec`
// +kubebuilder:printcolumn:name="SUSPEND",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="ACTIVE",type=integer,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="LAST",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="NEXT",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",message="the name of a CronTab must have at most 52 characters: its CronJob adds 11 to the name of each Job",fieldPath=".metadata"
type CronTab struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec declares the schedule, the image and the runs.
	// +required
	Spec stablev1.CronTabSpec `json:"spec"`
	// status is the observed state of the CronTab. Only the controller writes it.
	// +optional
	Status stablev1.CronTabStatus `json:"status,omitempty"`
}

// CronTabList is a list of CronTabs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type CronTabList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []CronTab `json:"items"`
}
