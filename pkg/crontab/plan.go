package crontab

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Plan lists the writes, in the order in which apply makes them; it stops at the first
// error. At most one of Delete, Create, Update and Release is set.
type Plan struct {
	// Delete the CronJob, in the foreground: it stays until its Jobs and their pods are
	// gone. Preconditions: UID, and resourceVersion, because a CronJob that the garbage
	// collector has orphaned must stay.
	Delete *plan.Deletion
	// Create the CronJob, by fixed name.
	Create *batchv1.CronJob
	// Update the CronJob. Preconditions: resourceVersion, and for an adoption a live read
	// that shows that the CronTab has not changed.
	Update *plan.Update[*batchv1.CronJob]
	// Release removes v1.WaitFinalizer from the CronTab. Preconditions: resourceVersion,
	// and a live read for this purpose, for which Waits returns "".
	Release bool
	// Status, AFTER everything; nil if it is already written. It reports the state after
	// the plan.
	Status *v1.CronTabStatus
	// Events follow the writes.
	Events []plan.Event
	// Gathers is true if times and numbers of the status changed. They are written
	// together with later changes, when State.NumbersHeld has passed.
	Gathers bool
	// RequeueAfter is when time alone changes something; zero means never.
	RequeueAfter time.Duration
}

// Empty reports whether there is nothing to write; events follow writes.
func (p Plan) Empty() bool {
	return p.Delete == nil && p.Create == nil && p.Update == nil && !p.Release && p.Status == nil
}

// String has one action a line, in the order in which they are written.
func (p Plan) String() string {
	var b strings.Builder
	if d := p.Delete; d != nil {
		fmt.Fprintf(&b, "delete CronJob %s (uid %s, version %s): %s\n", d.Name, d.UID, d.ResourceVersion, d.Reason)
	}
	if p.Create != nil {
		fmt.Fprintf(&b, "create CronJob %s\n", p.Create.Name)
	}
	if u := p.Update; u != nil {
		adopted := ""
		if u.Adopts() {
			adopted = ", adopted"
		}
		fmt.Fprintf(&b, "update CronJob %s (version %s)%s: %s\n", u.Object.Name, u.Object.ResourceVersion, adopted, u.Reason)
	}
	if p.Release {
		fmt.Fprintf(&b, "release %s\n", v1.WaitFinalizer)
	}
	if p.Status != nil {
		fmt.Fprintf(&b, "status %s\n", statusText(p.Status))
	}
	return b.String() + plan.Tail(p.Events, p.RequeueAfter)
}

func statusText(s *v1.CronTabStatus) string {
	text := fmt.Sprintf("last %s successful %s next %s active %d replicas %d generation %d",
		timeText(s.LastScheduleTime), timeText(s.LastSuccessfulTime), timeText(s.NextScheduleTime), s.Active, s.Replicas, s.ObservedGeneration)
	return text + plan.ConditionsText(s.Conditions)
}

func timeText(t *metav1.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
