package pod2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

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
		if refusal, ok := v.refused[r.pod.UID]; ok && refusal.of(c) {
			return recreate(r.outdated + ": its resources cannot be changed: " + shorten.To(refusal.Message, maxCause))
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

// of a change says that it asks for what was refused, and maybe for more.
func (r Refusal) of(c change) bool {
	for name, resources := range r.Resources {
		if !equality.Semantic.DeepEqual(resources, c.resources[name]) {
			return false
		}
	}
	return true
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

type changeOrWhy struct {
	change change
	why    string
}
