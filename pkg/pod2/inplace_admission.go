package pod2

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/internal/shorten"
)

// rewritten returns a change that admission made when the pod was created, and that a
// change in place would undo; "" if there is none. A webhook that redirects images to a
// mirror is called when a pod is created, and mostly not when it is changed. So a pod
// that has another image than its revision is recreated for a new image, and a pod that
// has other resources is recreated for new resources. Fields that already have the new
// value do not count, and neither do fields or containers that admission added.
func rewritten(pod *corev1.Pod, from Content, c change) string {
	for i := range from.Template.Spec.Containers {
		was := &from.Template.Spec.Containers[i]
		at := slices.IndexFunc(pod.Spec.Containers, func(is corev1.Container) bool { return is.Name == was.Name })
		if at < 0 {
			return fmt.Sprintf("container %s is not in the pod", was.Name)
		}
		is := &pod.Spec.Containers[at]
		if len(c.images) > 0 && is.Image != was.Image && is.Image != c.images[was.Name] {
			return fmt.Sprintf("container %s has image %s, but %s in its revision: admission may change the new image too", was.Name,
				shorten.To(is.Image, maxCause), shorten.To(was.Image, maxCause))
		}
		want, changes := c.resources[was.Name]
		if !changes {
			continue
		}
		before := defaulted(was.Resources)
		for _, list := range []struct {
			name          string
			is, was, want corev1.ResourceList
		}{{"requests", is.Resources.Requests, before.Requests, want.Requests}, {"limits", is.Resources.Limits, before.Limits, want.Limits}} {
			for _, name := range slices.Sorted(maps.Keys(list.was)) {
				now, then, next := list.is[name], list.was[name], list.want[name]
				if now.Cmp(then) != 0 && now.Cmp(next) != 0 {
					return fmt.Sprintf("resources.%s.%s of container %s is %s, but %s in its revision: admission may change the new value too",
						list.name, name, was.Name, now.String(), then.String())
				}
			}
		}
	}
	return ""
}

// PullPolicy returns the policy that the API server gives a container without one. It
// depends on the image that the container has when its pod is created:
//
//	nginx, nginx:latest, nginx:latest@sha256:...   Always
//	nginx:1, nginx@sha256:...                      IfNotPresent
func PullPolicy(image string) corev1.PullPolicy {
	name, _, digest := strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if tag == "latest" || !tagged && !digest {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
