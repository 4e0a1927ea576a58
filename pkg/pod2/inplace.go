package pod2

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// change is what makes a running pod of one content one of another.
type change struct {
	images    map[string]string // by container
	resources map[string]corev1.ResourceRequirements
	labels    map[string]*string // nil: goes
}

// inPlace compares contents, and says why the change is not one for a running pod:
//
//	images of containers                       in place; the containers restart
//	cpu and memory of containers               in place, through the subresource resize
//	labels                                     in place, unless a variable reads one of them
//	annotations, init containers, Networks     a new pod, and so for everything else
//	resources that change the QoS class, that  a new pod: the API server or the
//	come or go, memory limits that shrink      kubelet would not have it
func inPlace(from, to Content) (c change, why string) {
	was, is := from.Template.DeepCopy(), to.Template.DeepCopy()
	if len(was.Spec.Containers) != len(is.Spec.Containers) {
		return c, "template.spec.containers"
	}
	c = change{map[string]string{}, map[string]corev1.ResourceRequirements{}, map[string]*string{}}
	for i := range was.Spec.Containers {
		a, b := &was.Spec.Containers[i], &is.Spec.Containers[i]
		a.Resources, b.Resources = defaulted(a.Resources), defaulted(b.Resources)
		if a.Image != b.Image {
			c.images[b.Name] = b.Image
		}
		if !equality.Semantic.DeepEqual(a.Resources, b.Resources) {
			if why := resizable(a, b); why != "" {
				return c, why
			}
			c.resources[b.Name] = b.Resources
		}
		a.Image, a.Resources = b.Image, b.Resources
	}
	if a, b := qosClass(from.Template.Spec), qosClass(to.Template.Spec); a != b {
		return c, fmt.Sprintf("the QoS class (from %s to %s)", a, b)
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
	if key := readLabel(is.Spec, c.labels); key != "" {
		return c, fmt.Sprintf("label %s, which an environment variable reads", key)
	}
	was.Labels = is.Labels
	rest := Content{Template: *was, Networks: from.Networks, ServiceName: from.ServiceName}
	return c, firstDifference(rest.canonical(), Content{*is, to.Networks, to.ServiceName}.canonical())
}

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

// readLabel is a changed label that an environment variable has the value of: it
// would keep the old one. Volumes follow.
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

// firstDifference is the path, in order, of the first field that differs; "" if
// none does.
func firstDifference(a, b []byte) string {
	var x, y any
	// Both were encoded here.
	_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y)
	return differs("", x, y)
}

func differs(path string, x, y any) string {
	if a, ok := x.(map[string]any); ok {
		if b, ok := y.(map[string]any); ok {
			keys := slices.Collect(maps.Keys(a))
			for key := range b {
				if _, both := a[key]; !both {
					keys = append(keys, key)
				}
			}
			slices.Sort(keys)
			for _, key := range keys {
				if where := differs(strings.TrimPrefix(path+"."+key, "."), a[key], b[key]); where != "" {
					return where
				}
			}
			return ""
		}
	}
	if a, ok := x.([]any); ok {
		if b, ok := y.([]any); ok && len(a) == len(b) {
			for i := range a {
				if where := differs(fmt.Sprintf("%s[%d]", path, i), a[i], b[i]); where != "" {
					return where
				}
			}
			return ""
		}
	}
	if equality.Semantic.DeepEqual(x, y) {
		return ""
	}
	return path
}

// text names what changes, for events: "image of app; labels".
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

// step is the next one of a stale pod on its way to the update revision.
type step struct {
	kind   stepKind
	reason string
	change change
	// costs says that the pod does not serve for a while.
	costs bool
}

type stepKind int

const (
	stepRecreate stepKind = iota
	stepResize            // first: it may turn out that there is no room
	stepAwait             // the kubelet has yet to resize
	stepPatch             // last: with the label that says it is done
)

// step of a stale pod; first match wins:
//
//	asks for other addresses than wanted     recreate, whatever else differs
//	over, gated, not started                 recreate: nobody loses it
//	inPlace is Never                         recreate
//	the revision it is of is not known       recreate
//	the change is none for a running pod     recreate
//	the image that it has now never ran      recreate: going back to the one that
//	                                         runs restarts nothing, and would be
//	                                         waited for in vain
//	its resources were refused               recreate
//	its resources are not yet asked for      resize
//	asked for, and the node cannot           recreate
//	asked for, the node cannot yet, and it   recreate: nothing is lost, and this may be
//	is not ready                             what repairs it
//	asked for, and not yet so                await
//	else                                     patch
func (v *view) step(r replica) step {
	recreate := func(reason string) step { return step{stepRecreate, reason, change{}, true} }
	if r.moved != "" {
		return recreate(r.moved)
	}
	if r.over || r.pod.Status.Phase != corev1.PodRunning || v.pod2.Spec.UpdateStrategy.InPlace == v1.InPlaceNever || v.recreate() {
		return recreate(r.outdated)
	}
	record := recordedInPlace(r.pod)
	c, why := v.changeFrom(r.pod.Labels[v1.PodTemplateHashLabel])
	if why == "" && record.Resizing {
		c, why = c.withResources(r.pod, v.revisions.update.content)
	}
	if why != "" {
		return recreate(r.outdated + ": " + why)
	}
	for name, container := range record.Containers {
		if _, again := c.images[name]; again && container.runs(r.pod, name) {
			return recreate(fmt.Sprintf("%s, before container %s had the image of the update before", r.outdated, name))
		}
	}
	switch state, restart := resizing(r.pod, c); state {
	case "":
	case "asked":
		if ready := podCondition(r.pod, corev1.PodReady); pending(r.pod) != nil && (ready == nil || ready.Status != corev1.ConditionTrue) {
			return recreate(r.outdated + ": it is not ready, and its node has no room to resize it yet")
		}
		return step{stepAwait, "waits for the node to resize it", c, restart}
	case "wanted":
		if refusal, ok := v.refused[r.pod.UID]; ok && equality.Semantic.DeepEqual(refusal.Resources, c.resources) {
			return recreate(r.outdated + ": its resources cannot be changed: " + cut(refusal.Message, maxCause))
		}
		return step{stepResize, "resources", c, restart}
	default:
		return recreate(fmt.Sprintf("%s: its resources cannot be changed: %s", r.outdated, state))
	}
	restart := false
	for name, image := range c.images {
		restart = restart || imageOf(r.pod, name) != image
	}
	return step{stepPatch, c.text(), c, restart}
}

// changeFrom a revision, by its hash; many pods are of the same.
func (v *view) changeFrom(hash string) (change, string) {
	if hash == v.revisions.update.hash {
		return change{}, ""
	}
	known, ok := v.changes[hash]
	if !ok {
		known.why = "what it was made from is not known"
		for _, r := range v.revisions.ours {
			if r.hash == hash {
				if known.change, known.why = inPlace(r.content, v.revisions.update.content); known.why != "" {
					known.why += notInPlace
				}
			}
		}
		v.changes[hash] = known
	}
	return known.change, known.why
}

const notInPlace = " cannot be changed in a running pod"

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

type changeOrWhy struct {
	change change
	why    string
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

// InPlaceUpdate of a running pod: images, labels, and the label that says of what
// revision it is now.
type InPlaceUpdate struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Reason          string
	Images          map[string]string
	// Labels to be set; nil takes one away.
	Labels map[string]*string
	// Annotation is the value of v1.InPlaceAnnotation.
	Annotation string
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

func (v *view) inPlaceUpdate(r replica) InPlaceUpdate {
	c := r.step.change
	before := inPlaceRecord{Containers: map[string]containerBefore{}}
	for name, container := range recordedInPlace(r.pod).Containers {
		if container.runs(r.pod, name) {
			before.Containers[name] = container // has yet to restart
		}
	}
	for name, image := range c.images {
		if s := containerStatus(r.pod, name); s != nil && imageOf(r.pod, name) != image {
			before.Containers[name] = containerBefore{ID: s.ContainerID, Image: imageOf(r.pod, name)}
		}
	}
	labels := map[string]*string{v1.PodTemplateHashLabel: &v.revisions.update.hash}
	for key, value := range c.labels {
		if own, ok := v.pod2.Labels[key]; ok && value == nil {
			value = &own // the Pod2's own shows again
		}
		if !strings.HasPrefix(key, v1.GroupName+"/") {
			labels[key] = value
		}
	}
	return InPlaceUpdate{
		Name: r.pod.Name, UID: r.pod.UID, ResourceVersion: r.pod.ResourceVersion, Reason: r.step.reason,
		Images: c.images, Labels: labels, Annotation: before.String(),
	}
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
