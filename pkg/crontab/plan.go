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

// Plan is what is to be written; the fields stand in the order in which they are
// written, and apply stops at the first error. At most one of Delete, Create,
// Update and Release is set.
type Plan struct {
	// Delete the CronJob, in the foreground: it stays until its Jobs and their
	// pods are gone. Preconditions: UID, and resourceVersion, for one that the
	// garbage collector has taken from us is not to go.
	Delete *plan.Deletion
	// Create the CronJob, by fixed name.
	Create *batchv1.CronJob
	// Update the CronJob. Preconditions: resourceVersion, and if it is adopted, a live read that
	// shows the CronTab as it was seen.
	Update *plan.Update[*batchv1.CronJob]
	// Release takes v1.WaitFinalizer off the CronTab. Preconditions:
	// resourceVersion, and a live read, made for it, for which Waits says "".
	Release bool
	// Status, AFTER everything; nil when it stands as it is. It tells what will be
	// when the plan is carried out.
	Status *v1.CronTabStatus
	// Events follow the writes.
	Events []plan.Event
	// Gathers: times and numbers of the status changed, and are written when more of them
	// have, when State.NumbersHeld is over.
	Gathers bool
	// RequeueAfter is when time alone changes something; zero: never.
	RequeueAfter time.Duration
}

// Empty says that nothing is to be written; events follow writes.
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
