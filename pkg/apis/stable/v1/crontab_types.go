package v1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronTab runs an image on a schedule, and its pods can join Networks. The
// controller creates one CronJob with the same name, which Kubernetes runs. A
// field with the name of a field of a CronJob or a Job has the same meaning
// here. If you change such a field in the CronJob, the controller sets it
// again. The CronJob's other fields (resources, ttlSecondsAfterFinished) stay
// as you or a policy set them there. There are three exceptions. The
// controller removes additional containers, removes addresses in the pod
// template, and resumes a suspended jobTemplate.
//
// With the finalizer `finalizer.stable.example.com`, a deletion ends the runs.
// It waits until they have finished and their pods have returned their
// addresses. This includes a run that you started by hand, if its name begins
// with the CronTab's name and a dash. With `--cascade=orphan`, the CronJob and
// its runs stay, and the next CronTab with that name adopts them.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Spec CronTabSpec `json:"spec"`
	// status is the observed state of the CronTab. Only the controller writes it.
	// +optional
	Status CronTabStatus `json:"status,omitempty"`
}

// CronTabSpec declares the schedule, the image and the runs.
type CronTabSpec struct {
	// cronSpec is the schedule: minute, hour, day of month, month and day of week.
	// For example, "*/5 * * * *" starts a run every five minutes. cronSpec may
	// also be "@hourly", "@daily", "@weekly", "@monthly" or "@yearly". With
	// "@every 1h30m", a run starts in this interval, which must be at least a
	// minute.
	//
	// A schedule that does not parse or is never due is accepted, but the
	// condition Scheduled reports it, and nothing runs until you repair it. If it
	// was valid before, the repair starts the most recent missed run at once,
	// unless startingDeadlineSeconds have passed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	CronSpec string `json:"cronSpec"`

	// image is the container image of each run.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// command is the entry point of the container. Defaults to the image's.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Command []string `json:"command,omitempty"`

	// args are the arguments of the entry point. Defaults to the image's.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Args []string `json:"args,omitempty"`

	// env lists environment variables of the container. Defaults to none.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1024
	Env []corev1.EnvVar `json:"env,omitempty"`

	// replicas is the number of pods of a run that work at once (a Job's
	// parallelism), from 0 to 100000. With 0, a run ends at once. But if
	// completions is set and replicas is 0, the run starts no pod, and lasts until
	// activeDeadlineSeconds end it. Defaults to 1.
	//
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Replicas *int32 `json:"replicas,omitempty"`

	// completions is the number of pods of a run that must succeed, from 0 to
	// 100000. Defaults to replicas.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Completions *int32 `json:"completions,omitempty"`

	// timeZone is the name of the schedule's time zone in the IANA database, such
	// as Europe/Berlin. Defaults to the time zone of the kube-controller-manager,
	// which is usually UTC. status.nextScheduleTime assumes UTC then.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	TimeZone *string `json:"timeZone,omitempty"`

	// suspend stops the start of further runs; active runs continue. Defaults to
	// false. When you set it back to false, the most recent missed run starts at
	// once, unless startingDeadlineSeconds have passed. This is how a CronJob
	// behaves, too.
	//
	// +optional
	// +default=false
	Suspend *bool `json:"suspend,omitempty"`

	// concurrencyPolicy controls a run that is due while another is active.
	// "Allow" starts it, and "Replace" starts it in place of the active one.
	// With "Forbid" the last missed run starts when the active one has ended,
	// unless startingDeadlineSeconds have passed by then. Defaults to "Forbid"
	// with networks, so runs that wait for addresses do not pile up. Defaults to
	// "Allow" without networks.
	//
	// +optional
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace
	ConcurrencyPolicy batchv1.ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// startingDeadlineSeconds is how late, in seconds, a run may start. After that
	// it counts as missed. Defaults to no deadline. Kubernetes starts no run with
	// 0, nor with less than the interval of an "@every" schedule; the condition
	// Scheduled reports that.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// successfulJobsHistoryLimit is the number of successful runs to keep.
	// Defaults to 3.
	//
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is the number of failed runs to keep. Defaults to 1.
	//
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// backoffLimit is the number of retries before a run counts as failed.
	// Defaults to 6.
	//
	// +optional
	// +default=6
	// +kubebuilder:validation:Minimum=0
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// activeDeadlineSeconds is how long, in seconds, a run may take. After that,
	// its pods are terminated and it counts as failed. Defaults to no deadline.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// networks lists the Networks, of the same namespace, that every pod of a run
	// joins. A pod gets its addresses before it is scheduled, and returns them
	// when it ends. Defaults to none.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(n, has(n.interface)).all(n, self.exists_one(m, has(m.interface) && m.interface == n.interface))",message="the interfaces of networks must be unique"
	Networks []CronTabNetwork `json:"networks,omitempty"`
}

// CronTabNetwork is a Network that the pods of a run join.
type CronTabNetwork struct {
	// name is the name of a Network of the same namespace.
	//
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// interface is the name of the pods' interface on the Network. With eth0, the
	// Network replaces the cluster's network in these pods. It must not be lo, and
	// must be unique among networks. Defaults to the next free of net1, net2, ...
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`
	// +kubebuilder:validation:XValidation:rule="self != 'lo'",message="must not be lo, the loopback interface of every pod"
	Interface string `json:"interface,omitempty"`
}

// CronTabStatus is the observed state of a CronTab.
type CronTabStatus struct {
	// lastScheduleTime is the time at which the last run that started was due.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// lastSuccessfulTime is the time at which a run last completed successfully.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
	// nextScheduleTime is the time at which the next run is due. It is absent if
	// no run is due.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// active is the number of active runs.
	// +optional
	Active int32 `json:"active"`
	// replicas is the number of pods that work or are about to.
	// +optional
	Replicas int32 `json:"replicas"`
	// selector is the label selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are the latest observations of the CronTab's state. Ready: the
	// CronJob matches the CronTab, and no run waits for something that you must
	// provide. Scheduled: there will be a next run.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
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
