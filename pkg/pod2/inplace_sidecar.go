package pod2

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// SidecarUpdate gives a pod a later generation of a Sidecar, which differs in images only.
type SidecarUpdate struct {
	// Name of the Sidecar.
	Name string
	// Images of its containers and init containers.
	Images map[string]string
	// Sidecars is the value of v1.SidecarsAnnotation.
	Sidecars string
}

// Available says whether a pod is Ready, and no container of it is going to restart.
func Available(pod *corev1.Pod) bool { return attachment.Ready(pod) && Restarting(pod) == "" }

// SparesNone says whether the update strategy never lets a replica become unavailable: it creates surge replicas, and
// only for changes of the spec.
func SparesNone(p *v1.Pod2) bool {
	v := &view{pod2: p, ordinals: Ordinals(p)}
	return v.maxUnavailable() == 0
}

// changed returns the containers that get another image, in name order.
func (u SidecarUpdate) changed(pod *corev1.Pod) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(u.Images)), func(name string) bool { return ImageOf(pod, name) == u.Images[name] })
}

// Costs says whether a container restarts.
func (u SidecarUpdate) Costs(pod *corev1.Pod) bool { return len(u.changed(pod)) > 0 }

// On returns the write to a pod. A pod without changed images only gets the annotation.
func (u SidecarUpdate) On(pod *corev1.Pod) InPlaceUpdate {
	changed := u.changed(pod)
	update := InPlaceUpdate{
		Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Sidecars: u.Sidecars,
		Reason: "Sidecar " + u.Name, Images: map[string]string{}, InitImages: map[string]string{},
	}
	if len(changed) == 0 {
		return update
	}
	update.Reason += ": image of " + strings.Join(changed, ", ")
	update.Annotation = recordedInPlace(pod).with(pod, u.Images).String()
	for _, name := range changed {
		images := update.Images
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }) {
			images = update.InitImages
		}
		images[name] = u.Images[name]
	}
	return update
}
