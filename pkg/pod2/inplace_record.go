package pod2

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// inPlaceRecord is the annotation v1.InPlaceAnnotation.
type inPlaceRecord struct {
	Containers map[string]containerBefore `json:"containers"`
	// Resizing is written before the pod is resized, and goes when its label says
	// what it is now. Until then its resources may be those of any revision, or
	// become so, whatever the label says.
	Resizing bool `json:"resizing,omitempty"`
}

// containerBefore is what a container was before its image was changed.
type containerBefore struct {
	ID    string `json:"id"`
	Image string `json:"image"`
}

func recordedInPlace(pod *corev1.Pod) inPlaceRecord {
	var record inPlaceRecord
	text, updated := pod.Annotations[v1.InPlaceAnnotation]
	if !updated { // as most, each time that they are looked at
		return record
	}
	if json.Unmarshal([]byte(text), &record) != nil {
		return inPlaceRecord{} // not written by us
	}
	return record
}

func (r inPlaceRecord) String() string {
	// Strings always encode, and the keys are sorted.
	text, _ := json.Marshal(r)
	return string(text)
}

// runs says that the container from before is the one there is, and will restart.
// It will not if its pod has the image from before, because admission made that of
// the one we wrote (two tags can be one digest), or somebody went back to it.
func (c containerBefore) runs(pod *corev1.Pod, name string) bool {
	s := containerStatus(pod, name)
	return s != nil && s.ContainerID == c.ID && imageOf(pod, name) != c.Image
}

// restarting says which container, changed in place, is not the new one yet: a
// kubelet publishes the status of a new generation before it has acted on it.
func restarting(pod *corev1.Pod) string {
	record := recordedInPlace(pod)
	for name, before := range record.Containers {
		if s := containerStatus(pod, name); s != nil && (before.runs(pod, name) || s.ContainerID == "" || !s.Ready) {
			return name
		}
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; record.Resizing && restartsForResize(pod, c) {
			return c.Name
		}
	}
	return ""
}

// restartsForResize says that a container will restart, because its node has yet
// to give it resources, or is about to, whose change demands that. One of which the
// node has said that it cannot goes on as it is.
func restartsForResize(pod *corev1.Pod, c *corev1.Container) bool {
	s := containerStatus(pod, c.Name)
	if s == nil || s.Resources == nil || infeasible(pod) != "" {
		return false
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		same := request.Cmp(s.Resources.Requests[name]) == 0 && limit.Cmp(s.Resources.Limits[name]) == 0
		if restarts(c, name) && (!same || resizeInProgress(pod)) {
			return true
		}
	}
	return false
}

// infeasible is why the node will never resize the pod, "" when it may.
func infeasible(pod *corev1.Pod) string {
	if c := pending(pod); c != nil && c.Reason == corev1.PodReasonInfeasible {
		return shorten.To(c.Reason+": "+c.Message, maxCause)
	}
	return ""
}

// pending is what the node says of a resize that it has not accepted; nil when it
// says nothing yet of the resources that are asked for now.
func pending(pod *corev1.Pod) *corev1.PodCondition {
	c := attachment.Condition(pod, corev1.PodResizePending)
	if c == nil || c.Status != corev1.ConditionTrue || c.ObservedGeneration > 0 && c.ObservedGeneration < pod.Generation {
		return nil
	}
	return c
}

// resizeInProgress says that the node has made room and has yet to act: the status
// of a container has some of the new resources by then (memory that is requested).
func resizeInProgress(pod *corev1.Pod) bool {
	c := attachment.Condition(pod, corev1.PodResizeInProgress)
	return c != nil && c.Status == corev1.ConditionTrue
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// imageOf a container as the pod asks for it.
func imageOf(pod *corev1.Pod, name string) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return pod.Spec.Containers[i].Image
		}
	}
	return ""
}
