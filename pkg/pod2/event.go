package pod2

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Reasons of events on a Pod2.
const (
	EventAdopting       = "Adopting"
	EventCreated        = "SuccessfulCreate"
	EventDeleted        = "SuccessfulDelete"
	EventUpdating       = "Updating"
	EventLabelling      = "Labelling"
	EventReplacing      = "Replacing"
	EventDeletedClaims  = "DeletedClaims"
	EventResizingClaims = "ResizingClaims"
)

// mendable are the reasons of the condition Ready that a user can fix. An event reports
// such a reason, too, when it becomes the obstacle.
var mendable = map[string]bool{
	ReasonTemplateTooLarge: true, ReasonHostNetwork: true, ReasonNameTaken: true, ReasonNameTooLong: true, ReasonClaimTaken: true, ReasonNetworkNotFound: true, ReasonNetworkTerminating: true, ReasonAddressCycle: true, ReasonAddressInUse: true, ReasonNodeUnreachable: true, ReasonFailedAdopt: true, ReasonFailedCreate: true, ReasonFailedDelete: true, ReasonFailedUpdate: true,
}

// Events returns the events for the part of a plan that was done: one event for each kind
// of action. One for each pod would be 2,000 for a Pod2 of 2,000 replicas. Each kind has
// a reason of its own, because client-go combines the events of one reason and shows the
// last.
func Events(s State, done Plan) []plan.Event {
	var events []plan.Event
	if len(done.Adopt) > 0 {
		events = append(events, plan.Normal(EventAdopting,
			"adopted "+names(len(done.Adopt), func(i int) string { return done.Adopt[i].Name })))
	}
	// Group by kind and reason, in the order in which they first occur.
	group := func(kind, reason, verb string, n int, pod func(int) (name, why string)) {
		byReason := map[string][]string{}
		var reasons []string
		for i := range n {
			name, why := pod(i)
			if byReason[why] == nil {
				reasons = append(reasons, why)
			}
			byReason[why] = append(byReason[why], name)
		}
		for _, why := range reasons {
			pods := byReason[why]
			text := fmt.Sprintf(verb, names(len(pods), func(i int) string { return pods[i] }))
			if why != "" {
				text += ": " + why
			}
			events = append(events, plan.Event{Type: kind, Reason: reason, Message: shorten.To(text, shorten.EventMessage)})
		}
	}
	group(corev1.EventTypeNormal, EventLabelling, "changed labels of %s", len(done.Relabel), func(i int) (string, string) { return done.Relabel[i].Name, done.Relabel[i].keys() })
	group(corev1.EventTypeNormal, EventUpdating, "resized %s", len(done.Resize), func(i int) (string, string) { return done.Resize[i].Name, done.Resize[i].Reason })
	group(corev1.EventTypeNormal, EventUpdating, "updated %s in place", len(done.InPlace), func(i int) (string, string) { return done.InPlace[i].Name, done.InPlace[i].Reason })
	deleted := func(ended bool) []PodDeletion {
		return slices.DeleteFunc(slices.Clone(done.Delete), func(d PodDeletion) bool { return (d.cause == causeEnded) != ended })
	}
	spare, ended := deleted(false), deleted(true)
	group(corev1.EventTypeNormal, EventDeleted, "deleted %s", len(spare), func(i int) (string, string) { return spare[i].Name, spare[i].Reason })
	group(corev1.EventTypeWarning, EventReplacing, "deleted %s (terminated)", len(ended), func(i int) (string, string) { return ended[i].Name, "" })
	if len(done.Create) > 0 {
		why := look(s).creating()
		group(corev1.EventTypeNormal, EventCreated, "created %s", len(done.Create), func(i int) (string, string) { return done.Create[i].Name, why })
	}
	group(corev1.EventTypeNormal, EventDeletedClaims, "deleted PersistentVolumeClaims %s", len(done.DeleteClaims), func(i int) (string, string) { return done.DeleteClaims[i].Name, done.DeleteClaims[i].Reason })
	group(corev1.EventTypeNormal, EventResizingClaims, "requested larger PersistentVolumeClaims %s", len(done.GrowClaims), func(i int) (string, string) {
		return done.GrowClaims[i].Claim.Name, done.GrowClaims[i].Reason
	})
	if done.Status != nil {
		if is := meta.FindStatusCondition(done.Status.Conditions, v1.ConditionProgressing); is.Reason == ReasonProgressDeadlineExceeded {
			if was := meta.FindStatusCondition(s.Pod2.Status.Conditions, v1.ConditionProgressing); was == nil || was.Reason != is.Reason {
				events = append(events, plan.Warning(is.Reason, shorten.To(is.Message, shorten.EventMessage)))
			}
		}
		is := meta.FindStatusCondition(done.Status.Conditions, v1.ConditionReady)
		if mendable[is.Reason] && !plan.Said(s.Pod2.Status.Conditions, is) {
			events = append(events, plan.Warning(is.Reason, is.Message))
		}
	}
	return events
}

// creating returns why replicas are created, as far as the state shows. A deleted pod
// leaves only two traces: an update in progress, and a generation whose pods were counted
// before.
func (v *view) creating() string {
	status := v.pod2.Status
	switch {
	case status.CurrentRevision != "" && status.CurrentRevision != v.revisions.update.object.Name:
		return "update"
	case status.ObservedGeneration == v.pod2.Generation:
		return "missing"
	}
	return "scaled up"
}
