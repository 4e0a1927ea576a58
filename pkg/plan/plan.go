// Package plan has the words that the plans of several kinds share: events, deletions,
// updates and failures, and what a status says of them. It decides nothing.
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

// Event is for people, on the object that the plan is about.
type Event struct{ Type, Reason, Message string }

// Normal is an event that tells of progress.
func Normal(reason, message string) Event { return Event{corev1.EventTypeNormal, reason, message} }

// Warning is an event that tells of what stands in the way.
func Warning(reason, message string) Event { return Event{corev1.EventTypeWarning, reason, message} }

// Deletion of one incarnation of an object.
//
// Preconditions: UID and resourceVersion; whose it is can change, while the UID stays.
type Deletion struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Reason          string
}

// Delete is the deletion of an object as it was observed.
func Delete(o metav1.Object, reason string) Deletion {
	return Deletion{Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Reason: reason}
}

func (d Deletion) String() string { return fmt.Sprintf("%s (uid %s): %s", d.Name, d.UID, d.Reason) }

// Update is the object as it was observed, and as it shall be. Precondition:
// resourceVersion.
type Update[T metav1.Object] struct {
	Was, Object T
	Reason      string
}

// Adopts says that the object had no controller: the update makes it ours.
func (u Update[T]) Adopts() bool { return metav1.GetControllerOfNoCopy(u.Was) == nil }

func (u Update[T]) String() string {
	return fmt.Sprintf("%s (version %s): %s", u.Object.GetName(), u.Object.GetResourceVersion(), u.Reason)
}

// Failure is what stands in the way, or what stopped a write, as a condition tells it.
// Reason is CamelCase, such as FailedCreate.
type Failure struct{ Reason, Message string }

// Tail is how the text of a plan ends: with its events, and with when to look again.
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

// Differences are the names of the fields in which an object is not as it shall be.
type Differences []string

// Compare adds the field if it differs.
func (d *Differences) Compare(field string, is, want any) {
	if !equality.Semantic.DeepEqual(is, want) {
		*d = append(*d, field)
	}
}

func (d Differences) String() string { return strings.Join(d, ", ") }

// Overlaid are labels with ours over them.
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

// Soonest is the smaller of two delays, of which zero means never.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
