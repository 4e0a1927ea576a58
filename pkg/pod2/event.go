package pod2

import (
	corev1 "k8s.io/api/core/v1"
)

// Reasons of events on a Pod2.
const (
	EventScalingUp   = "ScalingUp"
	EventScalingDown = "ScalingDown"
	EventUpdating    = "Updating"
	EventReplacing   = "Replacing"
)

// events has one event a kind of action: one a pod would be 2,000 for a Pod2 of
// 2,000 replicas, and the API server drops those of a source that talks too much.
func (v *view) events(p Plan) []Event {
	var events []Event
	for _, reason := range []string{EventScalingDown, EventUpdating, EventReplacing} {
		var pods []string
		for _, d := range p.Delete {
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
	if len(p.Create) > 0 {
		events = append(events, Event{corev1.EventTypeNormal, v.creating(),
			"created " + names(len(p.Create), func(i int) string { return p.Create[i].Pod.Name })})
	}
	return events
}

// creating says what replicas are created for, as far as that can be told from
// what is there: a pod that is gone leaves no trace but a revision on its way and
// a generation whose pods were counted before.
func (v *view) creating() string {
	status := v.pod2.Status
	switch {
	case status.CurrentRevision != "" && status.CurrentRevision != v.hash:
		return EventUpdating
	case status.ObservedGeneration == v.pod2.Generation:
		return EventReplacing
	}
	return EventScalingUp
}
