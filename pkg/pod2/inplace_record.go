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
	// Resizing is written before the pod is resized, and removed when the pod's label
	// names its new revision. Until then, the resources of the pod may be, or become,
	// those of any revision.
	Resizing bool `json:"resizing,omitempty"`
}

// containerBefore is the state of a container before its image was changed.
type containerBefore struct {
	ID    string `json:"id"`
	Image string `json:"image"`
}

func recordedInPlace(pod *corev1.Pod) inPlaceRecord {
	text, updated := pod.Annotations[v1.InPlaceAnnotation]
	if !updated { // most pods have no record
		return inPlaceRecord{}
	}
	var record inPlaceRecord
	if json.Unmarshal([]byte(text), &record) != nil {
		return inPlaceRecord{} // the controller did not write it
	}
	return record
}

// with returns the record of the pod once its containers have other images. A container
// that is yet to restart keeps its entry, because it still runs that image.
func (r inPlaceRecord) with(pod *corev1.Pod, images map[string]string) inPlaceRecord {
	next := inPlaceRecord{Containers: map[string]containerBefore{}, Resizing: r.Resizing}
	for name, container := range r.Containers {
		if container.runs(pod, name) {
			next.Containers[name] = container
		}
	}
	for name, image := range images {
		_, waits := next.Containers[name]
		if s := containerStatus(pod, name); s != nil && !waits && ImageOf(pod, name) != image {
			next.Containers[name] = containerBefore{ID: s.ContainerID, Image: ImageOf(pod, name)}
		}
	}
	return next
}

func (r inPlaceRecord) String() string {
	// Strings always encode, and the keys are sorted.
	text, _ := json.Marshal(r)
	return string(text)
}

// runs reports whether the previous container still runs and is going to restart. It does
// not restart if its pod has the previous image again. That happens when admission
// replaced the new image by it (two tags can be one digest), or when someone changed it
// back.
func (c containerBefore) runs(pod *corev1.Pod, name string) bool {
	s := containerStatus(pod, name)
	return s != nil && s.ContainerID == c.ID && ImageOf(pod, name) != c.Image
}

// Restarting returns a container that was changed in place and is not the new one yet. A
// kubelet publishes the status of a new generation before it has acted on it.
func Restarting(pod *corev1.Pod) string { return recordedInPlace(pod).restarting(pod) }

func (r inPlaceRecord) restarting(pod *corev1.Pod) string {
	for name, before := range r.Containers {
		if s := containerStatus(pod, name); s != nil && (before.runs(pod, name) || s.ContainerID == "" || !s.Ready) {
			return name
		}
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; r.Resizing && restartsForResize(pod, c) {
			return c.Name
		}
	}
	return ""
}

// restartsForResize reports whether a container is going to restart, because its node is
// yet to give it resources whose change requires a restart. If the node has said that it
// cannot, the container runs on unchanged.
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

// infeasible returns why the node cannot ever resize the pod, "" if it may.
func infeasible(pod *corev1.Pod) string {
	if c := pending(pod); c != nil && c.Reason == corev1.PodReasonInfeasible {
		return shorten.To(c.Reason+": "+c.Message, maxCause)
	}
	return ""
}

// pending returns the node's condition about a resize that it has not accepted. It is nil
// if the node has not yet considered the resources that the pod requests now.
func pending(pod *corev1.Pod) *corev1.PodCondition {
	c := attachment.Condition(pod, corev1.PodResizePending)
	if c == nil || c.Status != corev1.ConditionTrue || c.ObservedGeneration > 0 && c.ObservedGeneration < pod.Generation {
		return nil
	}
	return c
}

// resizeInProgress reports whether the node has made room but is yet to act. By then the
// status of a container has some of the new resources (the memory request).
func resizeInProgress(pod *corev1.Pod) bool {
	c := attachment.Condition(pod, corev1.PodResizeInProgress)
	return c != nil && c.Status == corev1.ConditionTrue
}

// containerStatus returns the status of a container or an init container. Their names
// differ.
func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == name {
				return &statuses[i]
			}
		}
	}
	return nil
}

// ImageOf returns the image of a container or an init container in the pod's spec, "" if
// the pod lacks it.
func ImageOf(pod *corev1.Pod, name string) string {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return containers[i].Image
			}
		}
	}
	return ""
}
