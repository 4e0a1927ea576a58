package pod2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// step is the next step of a stale pod towards the update revision.
type step struct {
	kind   stepKind
	reason string // of a deletion, or of the wait
	change change
	// costs is true if the pod is unavailable for a while.
	costs bool
	// needs is how many replicas must be allowed to be missing at once, 0 if one is
	// enough.
	needs int
}

type stepKind int

const (
	stepRecreate stepKind = iota
	stepResize            // first: the node may have no room
	stepAwait             // the kubelet is yet to resize, or a wanted address is not available
	stepPatch             // last: its label says that the update is done
)

// step returns the step of a stale pod; the first match wins. A pod to be recreated may
// have to wait for an address, see holdForAddresses.
//
//	asks for other addresses than wanted     recreate, whatever else differs
//	terminated, gated, not started           recreate: nobody loses it
//	inPlace is Never                         recreate
//	its revision is not known                recreate
//	a running pod cannot take the change     recreate
//	admission changed a field of the change  recreate: admission may not be called again
//	its present image never ran              recreate: going back to the image that runs
//	                                         restarts nothing, so the wait would never end
//	its resources were refused               recreate
//	its resources are not requested yet      resize
//	requested, and the node cannot           recreate
//	requested, the node cannot yet, and it   recreate: nothing is lost, and this may
//	is not ready                             repair it
//	requested, and not applied yet           await
//	else                                     patch
func (v *view) step(r replica) step {
	recreate := func(reason string) step { return step{kind: stepRecreate, reason: reason, costs: true} }
	if r.moved != "" {
		return recreate(r.moved)
	}
	if r.over || r.pod.Status.Phase != corev1.PodRunning || v.pod2.Spec.UpdateStrategy.InPlace == v1.InPlaceNever || v.recreate() {
		return recreate(r.outdated)
	}
	c, from, why := v.changeFrom(r.hash)
	switch {
	case why != "":
	case r.record.Resizing:
		if why = rewritten(r.pod, from, change{images: c.images}); why == "" {
			c, why = c.withResources(r.pod, v.revisions.update.content)
		}
	default:
		why = rewritten(r.pod, from, c)
	}
	if why != "" {
		return recreate(r.outdated + ": " + why)
	}
	for name, container := range r.record.Containers {
		if _, again := c.images[name]; again && container.runs(r.pod, name) {
			return recreate(fmt.Sprintf("%s before container %s ran the image of the previous update", r.outdated, name))
		}
	}
	switch state, restart := resizing(r.pod, c); state {
	case "":
	case "asked":
		if ready := attachment.Condition(r.pod, corev1.PodReady); pending(r.pod) != nil && (ready == nil || ready.Status != corev1.ConditionTrue) {
			return recreate(r.outdated + ": it is not ready, and its node has no room to resize it yet")
		}
		return step{kind: stepAwait, reason: "waits for the node to resize it", change: c, costs: restart}
	case "wanted":
		if refusal, ok := v.refused[r.pod.UID]; ok && refusal.of(c) {
			return recreate(r.outdated + ": its resources cannot be changed: " + shorten.To(refusal.Message, maxCause))
		}
		return step{kind: stepResize, reason: "resources", change: c, costs: restart}
	default:
		return recreate(fmt.Sprintf("%s: its resources cannot be changed: %s", r.outdated, state))
	}
	restart := false
	for name, image := range c.images {
		restart = restart || ImageOf(r.pod, name) != image
	}
	return step{kind: stepPatch, change: c, costs: restart}
}

// of reports whether the change requests the refused resources, and maybe more.
func (r Refusal) of(c change) bool {
	for name, resources := range r.Resources {
		if !equality.Semantic.DeepEqual(resources, c.resources[name]) {
			return false
		}
	}
	return true
}

// changeFrom returns the change from a revision, by its hash. It keeps the result,
// because many pods have the same revision.
func (v *view) changeFrom(hash string) (_ change, from Content, why string) {
	if hash == v.revisions.update.hash {
		return change{}, v.revisions.update.content, ""
	}
	known, ok := v.changes[hash]
	if !ok {
		known.why = "its revision is unknown"
		for _, r := range v.revisions.ours {
			if r.hash == hash {
				known.from = r.content
				if known.change, known.why = inPlace(r.content, v.revisions.update.content); known.why != "" {
					known.why += notInPlace
				}
			}
		}
		v.changes[hash] = known
	}
	return known.change, known.from, known.why
}

const notInPlace = " cannot be changed in a running pod"

type changeOrWhy struct {
	change change
	from   Content
	why    string
}
