package pod2

import (
	"fmt"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pod2/pod2/internal/shorten"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/plan"
)

// Reasons of the condition Ready; the first that applies is shown.
const (
	ReasonTemplateTooLarge     = "TemplateTooLarge"
	ReasonHostNetwork          = "HostNetwork"
	ReasonNameTaken            = "NameTaken"
	ReasonNameTooLong          = "NameTooLong"
	ReasonClaimTaken           = "ClaimTaken"
	ReasonWaitingForDeletion   = "WaitingForDeletion"
	ReasonNetworkNotFound      = "NetworkNotFound"
	ReasonNetworkTerminating   = "NetworkTerminating"
	ReasonAddressCycle         = "AddressCycle"
	ReasonWaitingForAddresses  = "WaitingForAddresses"
	ReasonAddressInUse         = "AddressInUse"
	ReasonNodeUnreachable      = "NodeUnreachable"
	ReasonPodsFailing          = "PodsFailing"
	ReasonUpdating             = "Updating"
	ReasonUnschedulable        = "Unschedulable"
	ReasonPodsNotReady         = "PodsNotReady"
	ReasonAllReplicasAvailable = "AllReplicasAvailable"
)

// ready returns the condition Ready. Its message contains no time, and no number except
// counters of the status. So it changes only when something important happens.
func (v *view) ready(failures map[int]failure) metav1.Condition {
	for _, row := range []struct {
		reason  string
		message string
	}{
		{ReasonTemplateTooLarge, v.templateTooLarge()},
		{ReasonHostNetwork, v.hostNetwork()},
		{ReasonNameTaken, each(v.unsteady(v.slots), v.taken)},
		{ReasonNameTooLong, v.tooLong()},
		{ReasonClaimTaken, v.eachBarred(v.claimTaken)},
		{ReasonWaitingForDeletion, each(v.unsteady(v.slots), func(_ int, r replica) string { return r.predecessor(v.pod2.Name) })},
		{ReasonWaitingForDeletion, v.eachBarred(v.claimGoing)},
		{ReasonNetworkNotFound, v.networkNotFound()},
		{ReasonNetworkTerminating, v.networkTerminating()},
		{ReasonAddressCycle, list(v.cycles)},
		{ReasonWaitingForAddresses, v.waitingForAddresses()},
		{ReasonAddressInUse, each(v.unsteady(v.replicas), v.keptFromAddress)},
		{ReasonNodeUnreachable, each(v.unsteady(v.slots), func(_ int, r replica) string { return v.lost(r) })},
		{ReasonPodsFailing, each(v.unsteady(v.slots), func(i int, r replica) string { return v.failing(i, r, failures) })},
		{ReasonUpdating, v.updating()},
		{ReasonUnschedulable, each(v.unsteady(v.replicas), func(_ int, r replica) string { return r.whyUnschedulable() })},
		{ReasonPodsNotReady, each(v.unsteady(v.replicas), v.unready)},
	} {
		if row.message != "" {
			return plan.False(row.reason, row.message+v.surplusText())
		}
	}
	message := "spec.replicas is 0"
	if n := v.replicas; n == 1 {
		message = "the replica is available"
	} else if n > 1 {
		message = fmt.Sprintf("all %d replicas are available", n)
	}
	return plan.True(ReasonAllReplicasAvailable, message+v.surplusText())
}

// surplusText reports scaled-down pods that still exist, because their node has not
// confirmed that they stopped, or because they are still needed.
func (v *view) surplusText() string {
	if lost := each(slices.All(v.surplus), func(_ int, r replica) string { return v.lost(r) }); lost != "" {
		return "; " + lost
	}
	spare := v.spare()
	for _, r := range v.surplus {
		if !r.terminating && !spare.allows(r, true) {
			return fmt.Sprintf("; scaled-down pod %s stays until more replicas are available", r.pod.Name)
		}
	}
	return ""
}

// each joins the texts about replicas, for the first few only.
func each(of iter.Seq2[int, replica], say func(index int, r replica) string) string {
	var all []string
	for i, r := range of {
		if text := say(i, r); text != "" {
			if all = append(all, text); len(all) > namesShown {
				break
			}
		}
	}
	return list(all)
}

// taken reports a pod of another owner that has the name of a replica.
func (v *view) taken(place int, r replica) string {
	if r.pod == nil || r.own || r.predecessor(v.pod2.Name) != "" || v.refusedAdoption(r.pod.UID) {
		return ""
	}
	const noticed = "so that the replica can use the name (the controller notices within 30 seconds)"
	owner := attachment.Owner(r.pod)
	if owner.Kind == "StatefulSet" && owner.Name == v.pod2.Name && !r.terminating && !r.over {
		// The controller's cache has no spec of it. Orphans reports whether it matches the template.
		return fmt.Sprintf("pod %s already exists and is owned by StatefulSet %s: delete the StatefulSet with --cascade=orphan. "+
			"The controller then adopts the pod if it matches the template (check with `kubectl pod2 plan`)", r.pod.Name, owner.Name)
	}
	if owner.Name != "" {
		return fmt.Sprintf("pod %s already exists and is owned by %s %s: delete it %s", r.pod.Name, owner.Kind, owner.Name, noticed)
	}
	if _, why := v.adoption(place, r); why.Field != "" {
		return fmt.Sprintf("pod %s already exists and has no controller, but it differs from the template in %s: "+
			"delete it or change the template %s", r.pod.Name, why, noticed)
	}
	return fmt.Sprintf("pod %s already exists and has no controller: delete it %s", r.pod.Name, noticed)
}

// tooLong reports the replicas that cannot be created because of their names.
func (v *view) tooLong() string {
	if !v.nameTooLong(v.slots) { // no name of a slot is longer
		return ""
	}
	said := each(v.unsteady(v.slots), func(place int, r replica) string {
		if r.pod != nil || !v.nameTooLong(place) || v.unmissed(place, r) {
			return ""
		}
		return v.name(place)
	})
	if said == "" {
		return ""
	}
	return fmt.Sprintf("replicas cannot be created, because their names are longer than the %d characters of a hostname: %s. "+
		"Use fewer replicas, or a Pod2 with a shorter name", validation.DNS1123LabelMaxLength, said)
}

// predecessor reports a pod that the garbage collector is going to delete, because its
// owner, an earlier Pod2 with the same name, was deleted.
func (r replica) predecessor(pod2 string) string {
	if r.pod == nil || r.own {
		return ""
	}
	if ref := metav1.GetControllerOfNoCopy(r.pod); !IsOwner(ref) || ref.Name != pod2 {
		return ""
	}
	return fmt.Sprintf("%s of an earlier Pod2 %s still exists", r.pod.Name, pod2)
}

func (v *view) templateTooLarge() string {
	if v.revisions.tooLarge == 0 {
		return ""
	}
	text := fmt.Sprintf("spec.template is %s bytes as JSON, and at most %s are allowed: move large data to a ConfigMap or a Secret",
		thousands(v.revisions.tooLarge), thousands(maxContent))
	if v.revisions.update.exists {
		text += "; until then, replicas use revision " + v.revisions.update.object.Name
	}
	return text
}

// unmissed reports whether the place is a surge replica's and has no pod while updates
// are paused: then none is created.
func (v *view) unmissed(place int, r replica) bool {
	return place >= v.replicas && r.pod == nil && v.pod2.Spec.Paused
}

// failing reports a replica that terminated recently and has not been available since.
func (v *view) failing(index int, r replica, failures map[int]failure) string {
	f, recorded := failures[index]
	if r.serves() || !recorded && !r.ended() || v.unmissed(index, r) {
		return ""
	}
	text := v.name(index) + " terminated"
	if recorded && f.Failures > 1 {
		text += fmt.Sprintf(" %d times", f.Failures)
	}
	if r.ended() {
		text += fmt.Sprintf(" (%s)", cause(r.pod))
	}
	return text
}

// updating reports how far the update is, and its obstacles.
func (v *view) updating() string {
	updated, missing, old := v.steady.count, 0, false
	for _, r := range v.unsteady(v.replicas) {
		switch {
		case r.pod == nil:
			missing++
		case r.own && r.outdated != "":
			old = old || r.stale || r.terminating || v.pod2.Spec.Paused
		case r.live():
			updated++
		}
	}
	held := missing > 0 && v.emptying()
	if !old && !held {
		return ""
	}
	text := fmt.Sprintf("%d of %d replicas are updated", updated, v.replicas)
	if v.pod2.Spec.Paused {
		text = "paused: " + text
	}
	obstacles := each(v.unsteady(v.slots), func(i int, r replica) string {
		if !r.live() || r.outdated != "" {
			return ""
		}
		if stuck := r.whyUnschedulable(); stuck != "" {
			return stuck
		}
		return v.unready(i, r)
	})
	if obstacles != "" {
		text += "; " + obstacles
	}
	return text
}

func (r replica) whyUnschedulable() string {
	if !r.live() || r.unschedulable == nil {
		return ""
	}
	return r.pod.Name + " cannot be scheduled: " + shorten.To(r.unschedulable.Message, maxCause)
}

// unready returns why a replica is not available.
func (v *view) unready(index int, r replica) string {
	switch {
	case r.serves():
		return ""
	case r.pod == nil:
		return v.name(index) + " does not exist yet"
	case !r.own:
		return fmt.Sprintf("pod %s is not controlled by this Pod2", r.pod.Name)
	case v.lost(r) != "":
		return v.lost(r)
	case r.terminating:
		return r.pod.Name + " is terminating"
	case r.over:
		return fmt.Sprintf("%s terminated (%s)", r.pod.Name, cause(r.pod))
	case len(r.pod.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("%s is held by the scheduling gate %s", r.pod.Name, r.pod.Spec.SchedulingGates[0].Name)
	case r.ready:
		return fmt.Sprintf("%s has been ready for less than minReadySeconds (%d)", r.pod.Name, v.pod2.Spec.MinReadySeconds)
	}
	return fmt.Sprintf("%s is not ready (%s)", r.pod.Name, cause(r.pod))
}
