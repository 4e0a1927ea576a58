package pod2

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// defaulted sets the defaults that the API server sets in a pod but not in a template:
// the request defaults to the limit. A resize with only the limits would leave the
// requests unchanged, and be refused because of the QoS class.
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

// resizable returns the field that the subresource resize would refuse to change, "" if
// none.
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

// restarts reports whether a container restarts when the resource changes.
func restarts(c *corev1.Container, name corev1.ResourceName) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.ResourceName == name && p.RestartPolicy == corev1.RestartContainer
	})
}

// qosClass returns the QoS class of a pod by the rules of Kubernetes.
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

// withResources returns the change with all resources of the content. The pod may have
// those of any revision, so this compares with the pod itself, except for resources that
// admission added. Those stay.
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

// resizing returns how far the resize of a pod is: "" if it has the wanted resources,
// "wanted" if they must be requested, and "asked" while the node is yet to act. For the
// last two it also returns whether a container restarts. Else it returns why the resize
// is impossible.
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

// Resize changes the resources of a running pod.
type Resize struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Reason          string
	// Annotation is the new value of v1.InPlaceAnnotation; "" leaves it unchanged. It is
	// written BEFORE the resources, because a resize cannot write it.
	Annotation string
	// Resources by container.
	Resources map[string]corev1.ResourceRequirements
}

func resize(r replica) Resize {
	annotation := ""
	if record := r.record; !record.Resizing {
		record.Resizing = true
		annotation = record.String()
	}
	return Resize{
		Name: r.pod.Name, UID: r.pod.UID, ResourceVersion: r.pod.ResourceVersion, Reason: r.step.change.text(),
		Annotation: annotation, Resources: r.step.change.resources,
	}
}
