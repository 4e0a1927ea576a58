package pod2

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Reasons of events on a Pod2.
const (
	EventScalingUp   = "ScalingUp"
	EventScalingDown = "ScalingDown"
	EventUpdating    = "Updating"
	EventReplacing   = "Replacing"
)

// mendable reasons of the condition Ready are told in an event too, when they
// become what stands in the way.
var mendable = map[string]bool{
	ReasonNameTaken: true, ReasonNetworkNotFound: true, ReasonNodeUnreachable: true, ReasonFailedCreate: true, ReasonFailedDelete: true,
}

// Events are those of as much of a plan as was done: one event a kind of action; one a pod would be 2,000 for a Pod2 of
// 2,000 replicas, and the API server drops those of a source that talks too much.
func Events(s State, done Plan) []Event {
	v := look(s)
	var events []Event
	for _, reason := range []string{EventScalingDown, EventUpdating, EventReplacing} {
		var pods []string
		for _, d := range done.Delete {
			if d.cause == reason {
				pods = append(pods, d.Name)
			}
		}
		if len(pods) == 0 {
			continue
		}
		kind, why := corev1.EventTypeNormal, ""
		if reason == EventReplacing {
			kind, why = corev1.EventTypeWarning, ", which ended"
		}
		events = append(events, Event{kind, reason, "deleted " + names(len(pods), func(i int) string { return pods[i] }) + why})
	}
	if len(done.Create) > 0 {
		events = append(events, Event{corev1.EventTypeNormal, v.creating(),
			"created " + names(len(done.Create), func(i int) string { return done.Create[i].Pod.Name })})
	}
	if done.Status != nil {
		was := meta.FindStatusCondition(s.Pod2.Status.Conditions, v1.ConditionReady)
		is := meta.FindStatusCondition(done.Status.Conditions, v1.ConditionReady)
		if mendable[is.Reason] && (was == nil || was.Reason != is.Reason || was.Message != is.Message) {
			events = append(events, Event{corev1.EventTypeWarning, is.Reason, is.Message})
		}
	}
	return events
}

// creating says what replicas are created for, as far as that can be told from
// what is there: a pod that is gone leaves no trace but a revision on its way and
// a generation whose pods were counted before.
func (v *view) creating() string {
	status := v.pod2.Status
	switch {
	case status.CurrentRevision != "" && status.CurrentRevision != v.revisions.update.object.Name:
		return EventUpdating
	case status.ObservedGeneration == v.pod2.Generation:
		return EventReplacing
	}
	return EventScalingUp
}
