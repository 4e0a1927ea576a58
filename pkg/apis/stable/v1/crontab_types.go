package v1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronTab runs an image on a schedule, its pods on Networks if it names any.
// It becomes one CronJob of the same name, which Kubernetes runs: fields with
// the name of a field of a CronJob or a Job mean the same here, and are set
// again when somebody changes them in the CronJob. What a CronTab has no word
// for (resources, ttlSecondsAfterFinished) stays as you or a policy set it
// there, but for containers beside ours, addresses in the pod template, and a
// suspended jobTemplate.
//
// With the finalizer `finalizer.stable.example.com` a deletion ends the runs,
// and waits until they are over and the addresses of their pods returned;
// those of a run that was started by hand, if its name begins with the
// CronTab's and a dash. With `--cascade=orphan` the CronJob and its runs stay,
// and the next CronTab of that name adopts them.
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
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",message="the name of a CronTab has at most 52 characters: a CronJob of that name adds 11 to each Job's",fieldPath=".metadata"
type CronTab struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec CronTabSpec `json:"spec"`
	// What the controller found; written by it alone.
	// +optional
	Status CronTabStatus `json:"status,omitempty"`
}

// CronTabSpec is a schedule, an image, and how each run goes.
type CronTabSpec struct {
	// When to run: minute, hour, day of month, month and day of week, as in
	// "*/5 * * * *" for every five minutes; or "@hourly", "@daily", "@weekly",
	// "@monthly", "@yearly"; or "@every 1h30m", a minute at least, from run to
	// run. One that does not parse, or is never due, is accepted, and reported in
	// the condition Scheduled; nothing runs until it is repaired. That starts the
	// run that was missed last at once, unless startingDeadlineSeconds have
	// passed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	CronSpec string `json:"cronSpec"`

	// The image that each run runs.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// Entry point, in the place of the image's.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Command []string `json:"command,omitempty"`

	// Arguments, in the place of the image's.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Args []string `json:"args,omitempty"`

	// Environment variables of the container.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1024
	Env []corev1.EnvVar `json:"env,omitempty"`

	// How many pods of a run are at work at once (a Job's parallelism), 0 to
	// 100000. Default 1. With 0 a run is over at once; with completions besides it
	// starts no pod, and goes on until activeDeadlineSeconds end it.
	//
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Replicas *int32 `json:"replicas,omitempty"`

	// How many pods of a run have to succeed, 0 to 100000. Default: replicas.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Completions *int32 `json:"completions,omitempty"`

	// Name of the time zone of the schedule in the IANA database, such as
	// Europe/Berlin. Default: that of the kube-controller-manager, mostly UTC,
	// which is what status.nextScheduleTime takes it for.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	TimeZone *string `json:"timeZone,omitempty"`

	// Start no further runs; ones under way go on. Default false. As with a
	// CronJob, the end of it starts the run that was missed last, unless
	// startingDeadlineSeconds have passed since.
	//
	// +optional
	// +default=false
	Suspend *bool `json:"suspend,omitempty"`

	// What to do when a run is due while another is at work: Allow both, Forbid
	// the new one, or Replace the old. Default: Forbid with networks, so that runs
	// which wait for addresses do not pile up; else Allow.
	//
	// +optional
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace
	ConcurrencyPolicy batchv1.ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// How late, in seconds, a run may start; then it counts as missed. Default:
	// however late. Kubernetes starts no run with 0, nor with less than the
	// interval of an "@every": that is reported in the condition Scheduled.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// How many runs that succeeded to keep. Default 3.
	//
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// How many runs that failed to keep. Default 1.
	//
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// How often a run tries again before it counts as failed. Default 6.
	//
	// +optional
	// +default=6
	// +kubebuilder:validation:Minimum=0
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// How long a run may take, in seconds, until its pods are ended and it counts
	// as failed. Default: however long.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// Networks of the CronTab's namespace that every pod of a run joins. A pod
	// gets its addresses before it is scheduled and returns them when it ends.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(n, has(n.interface)).all(n, self.exists_one(m, has(m.interface) && m.interface == n.interface))",message="two Networks are on one interface"
	Networks []CronTabNetwork `json:"networks,omitempty"`
}

// CronTabNetwork names a Network to join.
type CronTabNetwork struct {
	// Name of the Network.
	//
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// interface is what the pods of a run call their interface on the Network.
	// With eth0, the Network takes the place of the cluster's network in these
	// pods. Defaults to the next free of net1, net2, ...
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`
	// +kubebuilder:validation:XValidation:rule="self != 'lo'",message="lo is the loopback interface of every pod"
	Interface string `json:"interface,omitempty"`
}

// CronTabStatus is what the controller found.
type CronTabStatus struct {
	// When the last run was due that was started.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// When a run last ended well.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
	// When the next run is due; absent while none is.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// How many runs are under way.
	// +optional
	Active int32 `json:"active"`
	// How many pods are at work or about to be.
	// +optional
	Replicas int32 `json:"replicas"`
	// Selects the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// metadata.generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Ready and Scheduled.
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
