// Package plan has the types that the plans of several kinds share: events, deletions,
// updates and failures, and how a status reports them. It decides nothing.
package plan

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Event is an event for people, on the object of the plan.
type Event struct{ Type, Reason, Message string }

// Normal returns an event that reports progress.
func Normal(reason, message string) Event { return Event{corev1.EventTypeNormal, reason, message} }

// Warning returns an event that reports an obstacle.
func Warning(reason, message string) Event { return Event{corev1.EventTypeWarning, reason, message} }

// Deletion deletes one object, by UID.
//
// Preconditions: UID and resourceVersion, because its owner can change while the UID
// stays.
type Deletion struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Reason          string
}

// Delete returns the deletion of an observed object.
func Delete(o metav1.Object, reason string) Deletion {
	return Deletion{Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Reason: reason}
}

func (d Deletion) String() string { return fmt.Sprintf("%s (uid %s): %s", d.Name, d.UID, d.Reason) }

// Update has the observed object and the wanted one. Precondition: resourceVersion.
type Update[T metav1.Object] struct {
	Was, Object T
	Reason      string
}

// Adopts reports whether the object had no controller: the update sets one.
func (u Update[T]) Adopts() bool { return metav1.GetControllerOfNoCopy(u.Was) == nil }

func (u Update[T]) String() string {
	return fmt.Sprintf("%s (version %s): %s", u.Object.GetName(), u.Object.GetResourceVersion(), u.Reason)
}

// Failure is an obstacle, or an error that stopped a write, as a condition reports it.
// Reason is CamelCase, such as FailedCreate.
type Failure struct{ Reason, Message string }

// Tail returns the end of the text of a plan: its events, and when to look again.
func Tail(events []Event, again time.Duration) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "event %s %s: %s\n", e.Type, e.Reason, e.Message)
	}
	if again > 0 {
		fmt.Fprintf(&b, "again in %s\n", again)
	}
	return b.String()
}

// Differences are the names of the fields that differ from the wanted object.
type Differences []string

// Compare adds the field if it differs.
func (d *Differences) Compare(field string, is, want any) {
	if !equality.Semantic.DeepEqual(is, want) {
		*d = append(*d, field)
	}
}

func (d Differences) String() string { return strings.Join(d, ", ") }

// Overlaid returns labels, overridden by the labels of the second map.
func Overlaid(labels, ours map[string]string) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, ours)
	return all
}

// ByName orders objects for slices.SortFunc.
func ByName[T metav1.Object](a, b T) int { return strings.Compare(a.GetName(), b.GetName()) }

// Soonest returns the smaller of two delays; zero means never.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
