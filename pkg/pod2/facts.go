package pod2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
)

// Facts have the properties that a decision reads of every pod. They depend on that version of
// the pod only. So a program that decides again and again reads each version once.
type Facts []*fact

// fact is about one version of a pod. It never changes: all decisions about that version share it.
type fact struct {
	pod *corev1.Pod
	// prefix and ordinal are the parts of the name: web and 0 of web-0. A name without an ordinal has an empty prefix.
	prefix      string
	ordinal     int32
	record      inPlaceRecord
	controller  *types.UID // of its controller, nil without one
	terminating bool
	over        bool
	gated       bool // by our scheduling gate
	ready       bool
	// labelled is true if the labels are those of a replica of the Pod2 prefix, except hash.
	labelled bool
	since    *metav1.Time // if it is ready
	hash     string       // label
	request  string       // annotation v1.Pod2RequestAnnotation
	given    string       // annotation v1.Pod2LabelsAnnotation
	// unschedulable is the condition that says so, else nil.
	unschedulable *corev1.PodCondition
}

// Of returns the facts of pods, in their order, see plan.Again.
func (earlier Facts) Of(pods []*corev1.Pod) Facts { return plan.Again(earlier, pods, factOf) }

// Of returns the pod.
func (f *fact) Of() *corev1.Pod { return f.pod }

func factOf(pod *corev1.Pod) *fact {
	f := &fact{
		pod: pod, record: recordedInPlace(pod), terminating: pod.DeletionTimestamp != nil, over: attachment.Over(pod), gated: attachment.Gated(pod),
		hash:    pod.Labels[v1.PodTemplateHashLabel],
		request: pod.Annotations[v1.Pod2RequestAnnotation], given: pod.Annotations[v1.Pod2LabelsAnnotation],
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		f.controller = &ref.UID
	}
	if c := attachment.Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue && f.record.restarting(pod) == "" {
		f.ready, f.since = true, &c.LastTransitionTime
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range statuses { // a quick restart need not show in the condition
				if running := statuses[i].State.Running; running != nil && running.StartedAt.After(f.since.Time) {
					f.since = &running.StartedAt
				}
			}
		}
	}
	if c := attachment.Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		f.unschedulable = c
	}
	var numbered bool
	if f.prefix, f.ordinal, numbered = ordinals.Split(pod.Name); numbered && f.prefix == pod.Labels[v1.Pod2Label] {
		f.labelled = pod.Labels[v1.ManagedLabel] == "true" && pod.Labels[v1.PodIndexLabel] == pod.Name[len(f.prefix)+len("-"):]
		f.prefix = pod.Labels[v1.Pod2Label] // the same text for all replicas, if they share labels as in the controller
	}
	return f
}
