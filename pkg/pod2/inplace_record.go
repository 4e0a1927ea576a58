package pod2

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// inPlaceRecord is the annotation v1.InPlaceAnnotation.
type inPlaceRecord struct {
	Containers map[string]containerBefore `json:"containers"`
}

// containerBefore is what a container was before its image was changed.
type containerBefore struct {
	ID    string `json:"id"`
	Image string `json:"image"`
}

func recordedInPlace(pod *corev1.Pod) inPlaceRecord {
	var record inPlaceRecord
	if json.Unmarshal([]byte(pod.Annotations[v1.InPlaceAnnotation]), &record) != nil {
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
	for name, before := range recordedInPlace(pod).Containers {
		if s := containerStatus(pod, name); s != nil && (before.runs(pod, name) || s.ContainerID == "" || !s.Ready) {
			return name
		}
	}
	return ""
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
