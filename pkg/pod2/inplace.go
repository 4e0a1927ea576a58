package pod2

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// change turns a running pod of one content into one of another.
type change struct {
	images    map[string]string // by container
	resources map[string]corev1.ResourceRequirements
	labels    map[string]*string // nil: removed
}

// inPlace compares contents, and returns why a running pod cannot take the change:
//
//	images of containers                       in place; the containers restart
//	images with another default of             a new pod
//	imagePullPolicy, if that is not set
//	cpu and memory of containers               in place, through the subresource resize
//	cpu or memory that a variable reads, of    a new pod
//	a container that does not restart for it
//	labels                                     in place, unless a variable reads one of them
//	the label v1.SidecarsLabel                 a new pod: it counts only at creation
//	annotations, init containers, Networks     a new pod, as for everything else
//	resources that change the QoS class,       a new pod: the API server or the
//	resources added or removed, smaller        kubelet would refuse it
//	memory limits
func inPlace(from, to Content) (c change, why string) {
	was, is := from.Template.DeepCopy(), to.Template.DeepCopy()
	if len(was.Spec.Containers) != len(is.Spec.Containers) {
		return c, "template.spec.containers"
	}
	before := map[string]corev1.ResourceRequirements{} // of the containers of c.resources
	c = change{map[string]string{}, map[string]corev1.ResourceRequirements{}, map[string]*string{}}
	for i := range was.Spec.Containers {
		a, b := &was.Spec.Containers[i], &is.Spec.Containers[i]
		a.Resources, b.Resources = defaulted(a.Resources), defaulted(b.Resources)
		if a.Image != b.Image {
			if was, is := PullPolicy(a.Image), PullPolicy(b.Image); b.ImagePullPolicy == "" && was != is {
				return c, fmt.Sprintf("container %s: imagePullPolicy (its default changes from %s to %s with the image)", b.Name, was, is)
			}
			c.images[b.Name] = b.Image
		}
		if !equality.Semantic.DeepEqual(a.Resources, b.Resources) {
			if why := resizable(a, b); why != "" {
				return c, why
			}
			before[b.Name], c.resources[b.Name] = a.Resources, b.Resources
		}
		a.Image, a.Resources = b.Image, b.Resources
	}
	if a, b := qosClass(from.Template.Spec), qosClass(to.Template.Spec); a != b {
		return c, fmt.Sprintf("the QoS class (from %s to %s)", a, b)
	}
	if field := readResource(is.Spec, before, c.resources); field != "" {
		return c, field + " (an environment variable reads it)"
	}
	for key, value := range is.Labels {
		if old, ok := was.Labels[key]; !ok || old != value {
			c.labels[key] = &value
		}
	}
	for key := range was.Labels {
		if _, ok := is.Labels[key]; !ok {
			c.labels[key] = nil
		}
	}
	if _, ok := c.labels[v1.SidecarsLabel]; ok {
		return c, fmt.Sprintf("label %s (it counts only when a pod is created)", v1.SidecarsLabel)
	}
	if key := readLabel(is.Spec, c.labels); key != "" {
		return c, fmt.Sprintf("label %s (an environment variable reads it)", key)
	}
	was.Labels = is.Labels
	// A pod that must ask for other addresses or another interface is recreated, see
	// step.
	rest := Content{Template: *was, Networks: from.Networks, ServiceName: from.ServiceName}.withoutDetails()
	return c, firstDifference(rest.canonical(), Content{*is, to.Networks, to.ServiceName}.withoutDetails().canonical())
}

// readLabel returns a changed label whose value an environment variable has: the variable
// would keep the old value. Volumes are updated.
func readLabel(spec corev1.PodSpec, changed map[string]*string) string {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
				continue
			}
			key, ok := strings.CutPrefix(e.ValueFrom.FieldRef.FieldPath, "metadata.labels['")
			key = strings.TrimSuffix(key, "']")
			if _, isChanged := changed[key]; ok && isChanged {
				return key
			}
		}
	}
	return ""
}

// readResource returns a changed resource whose value an environment variable has. A
// container that restarts for the change is given the new value in its own variables. If a
// limit is missing, before and after, the value is the node's and does not change.
func readResource(spec corev1.PodSpec, before, after map[string]corev1.ResourceRequirements) string {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.ResourceFieldRef == nil {
				continue
			}
			ref := e.ValueFrom.ResourceFieldRef
			of := cmp.Or(ref.ContainerName, c.Name)
			list, name, _ := strings.Cut(ref.Resource, ".") // limits.cpu
			read := corev1.ResourceName(name)
			was, is := before[of].Requests[read], after[of].Requests[read]
			if list == "limits" {
				was, is = before[of].Limits[read], after[of].Limits[read]
			}
			if was.Cmp(is) != 0 && (of != c.Name || !restarts(&c, read)) {
				return fmt.Sprintf("container %s: resources.%s", of, ref.Resource)
			}
		}
	}
	return ""
}

// text names the changes, for events: "image of app; labels".
func (c change) text() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c.resources)) {
		parts = append(parts, "resources of "+name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.images)) {
		parts = append(parts, "image of "+name)
	}
	if len(c.labels) > 0 {
		parts = append(parts, "labels "+strings.Join(slices.Sorted(maps.Keys(c.labels)), ", "))
	}
	return strings.Join(parts, "; ")
}

// InPlaceUpdate changes a running pod: its images, its labels, and the label that names
// its revision, or the annotation that names its Sidecars.
type InPlaceUpdate struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Reason          string
	// Images by container, and by init container.
	Images, InitImages map[string]string
	// Labels to set; nil removes one.
	Labels map[string]*string
	// Annotation is the value of v1.InPlaceAnnotation; "" leaves it unchanged.
	Annotation string
	// Sidecars is the value of v1.SidecarsAnnotation; "" leaves it unchanged.
	Sidecars string
	// Given is as in a Relabelling.
	Given *string
}

func (v *view) inPlaceUpdate(r replica) InPlaceUpdate {
	c := r.step.change
	record := r.record.with(r.pod, c.images)
	record.Resizing = false
	labels := map[string]*string{v1.PodTemplateHashLabel: &v.revisions.update.hash}
	for key, value := range c.labels {
		if own, ok := v.pod2.Labels[key]; ok && value == nil {
			value = &own // the Pod2's own label applies again
		}
		if !slices.Contains(ownLabels, key) {
			labels[key] = value
		}
	}
	update := InPlaceUpdate{
		Name: r.pod.Name, UID: r.pod.UID, ResourceVersion: r.pod.ResourceVersion, Reason: c.text(),
		Images: c.images, Labels: labels, Annotation: record.String(),
	}
	if also := v.relabelling(r, v.givenTo(v.revisions.update.hash)); also != nil {
		maps.Copy(labels, also.Labels)
		update.Given = also.Given
	}
	return update
}
