package pod2

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// defaulted as the API server does when it creates a pod, though not in a
// template: what is limited and not requested is requested up to the limit. A
// resize that had the limits alone would leave the requests as they were, and be
// refused for the QoS class.
func defaulted(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	r = *r.DeepCopy()
	for name, limit := range r.Limits {
		if _, requested := r.Requests[name]; !requested {
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			r.Requests[name] = limit
		}
	}
	return r
}

// resizable says what the subresource resize would refuse.
func resizable(a, b *corev1.Container) (why string) {
	path := "container " + b.Name + ": resources."
	if !equality.Semantic.DeepEqual(a.Resources.Claims, b.Resources.Claims) {
		return path + "claims"
	}
	for _, list := range []struct {
		name string
		a, b corev1.ResourceList
	}{{"requests", a.Resources.Requests, b.Resources.Requests}, {"limits", a.Resources.Limits, b.Resources.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(list.b)) {
			if _, ok := list.a[name]; !ok {
				return path + list.name + "." + string(name) + " (added)"
			}
		}
		for _, name := range slices.Sorted(maps.Keys(list.a)) {
			before, after := list.a[name], list.b[name]
			_, kept := list.b[name]
			switch {
			case !kept:
				return path + list.name + "." + string(name) + " (removed)"
			case before.Cmp(after) == 0:
			case name != corev1.ResourceCPU && name != corev1.ResourceMemory:
				return path + list.name + "." + string(name)
			case name == corev1.ResourceMemory && list.name == "limits" && after.Cmp(before) < 0 && !restarts(b, name):
				return path + "limits.memory (less)"
			}
		}
	}
	return ""
}

// restarts says whether a container is restarted when the resource changes.
func restarts(c *corev1.Container, name corev1.ResourceName) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.ResourceName == name && p.RestartPolicy == corev1.RestartContainer
	})
}

// qosClass of a pod, as Kubernetes has it.
func qosClass(spec corev1.PodSpec) corev1.PodQOSClass {
	guaranteed, bestEffort := true, true
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, requested := c.Resources.Requests[name]
			limit, limited := c.Resources.Limits[name]
			bestEffort = bestEffort && !requested && !limited
			guaranteed = guaranteed && limited && (!requested || request.Cmp(limit) == 0)
		}
	}
	switch {
	case bestEffort:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// withResources is the change with all resources that the content has, for a pod
// that may have those of any revision: what the change is from is the pod itself,
// but for what admission added, which stays.
func (c change) withResources(pod *corev1.Pod, to Content) (change, string) {
	all := change{c.images, map[string]corev1.ResourceRequirements{}, c.labels}
	for i := range to.Template.Spec.Containers {
		want := to.Template.Spec.Containers[i].DeepCopy()
		want.Resources = defaulted(want.Resources)
		for j := range pod.Spec.Containers {
			is := pod.Spec.Containers[j].DeepCopy()
			if is.Name != want.Name || len(want.Resources.Requests) == 0 {
				continue
			}
			added := func(in corev1.ResourceList) func(corev1.ResourceName, resource.Quantity) bool {
				return func(name corev1.ResourceName, _ resource.Quantity) bool { _, ok := in[name]; return !ok }
			}
			maps.DeleteFunc(is.Resources.Requests, added(want.Resources.Requests))
			maps.DeleteFunc(is.Resources.Limits, added(want.Resources.Limits))
			if why := resizable(is, want); why != "" {
				return c, why + notInPlace
			}
			all.resources[want.Name] = want.Resources
		}
	}
	return all, ""
}

// resizing says how far the resources of a pod are: "" when they are as wanted,
// "wanted" when they have to be asked for, "asked" while the node has not acted
// (and for both, whether a container restarts for it), else why it will not.
func resizing(pod *corev1.Pod, c change) (state string, restart bool) {
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		want, changes := c.resources[container.Name]
		if !changes {
			continue
		}
		reported := containerStatus(pod, container.Name)
		if reported == nil || reported.Resources == nil {
			return "its node does not support it", false
		}
		for _, list := range []struct{ spec, want, is corev1.ResourceList }{
			{container.Resources.Requests, want.Requests, reported.Resources.Requests},
			{container.Resources.Limits, want.Limits, reported.Resources.Limits},
		} {
			for name, quantity := range list.want {
				spec, is := list.spec[name], list.is[name]
				switch {
				case spec.Cmp(quantity) != 0:
					state = "wanted"
				case is.Cmp(quantity) == 0 && !resizeInProgress(pod):
					continue
				case state == "":
					state = "asked"
				}
				restart = restart || restarts(container, name)
			}
		}
	}
	if why := infeasible(pod); state == "asked" && why != "" {
		return why, false
	}
	return state, restart
}

// Resize of a running pod.
type Resize struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Reason          string
	// Annotation is the new value of v1.InPlaceAnnotation, BEFORE the resources: a
	// resize cannot write it. "" leaves it.
	Annotation string
	// Resources by container.
	Resources map[string]corev1.ResourceRequirements
}

func resize(r replica) Resize {
	annotation := ""
	if record := recordedInPlace(r.pod); !record.Resizing {
		record.Resizing = true
		annotation = record.String()
	}
	return Resize{
		Name: r.pod.Name, UID: r.pod.UID, ResourceVersion: r.pod.ResourceVersion, Reason: r.step.change.text(),
		Annotation: annotation, Resources: r.step.change.resources,
	}
}
