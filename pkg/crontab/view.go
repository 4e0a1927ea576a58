package crontab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/plan"
)

// view is a State with the schedule parsed and everything in its place.
type view struct {
	State
	cronTab *v1.CronTab
	// asked is the timetable of the CronTab; nil if there is a problem.
	asked *timetable
	// problem is why nothing can run.
	problem *plan.Failure
	// failure is the error that stopped apply.
	failure *plan.Failure
	// runs are the Jobs of the CronTab, and pods the pods of its runs.
	runs []*batchv1.Job
	pods []*corev1.Pod
}

// timetable determines when runs are due.
type timetable struct {
	cronSpec string
	timeZone *string
	deadline *int64
	zone     *time.Location
	schedule cron.Schedule
}

func look(s State) *view {
	v := &view{State: s, cronTab: s.CronTab}
	spec := s.CronTab.Spec
	v.asked, v.problem = v.read(timetable{cronSpec: spec.CronSpec, timeZone: spec.TimeZone, deadline: spec.StartingDeadlineSeconds, zone: s.Zone})
	for _, job := range s.Jobs {
		if v.isRun(job) {
			v.runs = append(v.runs, job)
		}
	}
	for _, pod := range s.Pods {
		if v.isOfRun(pod) {
			v.pods = append(v.pods, pod)
		}
	}
	return v
}

// read parses the schedule of a timetable.
func (v *view) read(t timetable) (*timetable, *plan.Failure) {
	var wrong string
	t.schedule, wrong = parse(t.cronSpec)
	switch {
	case wrong != "":
		return nil, &plan.Failure{Reason: ReasonInvalidSchedule, Message: wrong}
	case t.zone == nil:
		return nil, &plan.Failure{Reason: ReasonInvalidTimeZone, Message: fmt.Sprintf(
			"timeZone %q: %s; use a name from the IANA time zone database, such as Europe/Berlin", ptr.Deref(t.timeZone, ""), v.ZoneProblem)}
	case next(t.schedule, v.Now.In(t.zone), v.Now).IsZero():
		return nil, &plan.Failure{Reason: ReasonNeverDue, Message: fmt.Sprintf("cronSpec %q matches no date in the next five years", t.cronSpec)}
	case t.deadline != nil && *t.deadline < leastDeadline(t.schedule):
		return nil, &plan.Failure{Reason: ReasonNeverDue, Message: fmt.Sprintf("startingDeadlineSeconds %d is too short for cronSpec %q: "+
			"Kubernetes would never start a run. Remove it, or set it to at least %d", *t.deadline, t.cronSpec, leastDeadline(t.schedule))}
	}
	return &t, nil
}

// The CronTab owns the CronJob if it controls it, by UID, or is about to adopt it.
func (v *view) ours() bool {
	return v.CronJob != nil && (metav1.IsControlledBy(v.CronJob, v.cronTab) || v.adopts())
}

// adopts reports whether the CronJob was created for a CronTab with this name and has
// lost its owner reference, by hand or by a deletion with --cascade=orphan. A CronTab
// that is being deleted adopts nothing.
func (v *view) adopts() bool {
	return v.CronJob != nil && v.cronTab.DeletionTimestamp == nil &&
		metav1.GetControllerOfNoCopy(v.CronJob) == nil && v.CronJob.Labels[v1.CronTabLabel] == v.cronTab.Name
}

// orphans reports whether the CronTab's deletion keeps its dependents (--cascade=orphan):
// the garbage collector removes the owner reference, and then the CronTab no longer owns
// the CronJob.
func (v *view) orphans() bool {
	return slices.Contains(v.cronTab.Finalizers, metav1.FinalizerOrphanDependents)
}

// isRun reports whether a Job is a run of the CronTab. Its CronJob may be gone, and the
// Job is about to be deleted too. Jobs of a CronJob that the CronTab does not own stay.
func (v *view) isRun(job *batchv1.Job) bool {
	ref := metav1.GetControllerOfNoCopy(job)
	if ref == nil || ref.Kind != "CronJob" || ref.Name != v.cronTab.Name || !isBatch(ref) {
		return false
	}
	return v.CronJob == nil || v.ours() || ref.UID != v.CronJob.UID
}

// isOfRun reports whether a pod belongs to such a Job, or to a Job that is gone. If a
// user orphaned a Job, the Job and its pods belong to the user.
func (v *view) isOfRun(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "Job" || !isBatch(ref) || pod.Labels[v1.CronTabLabel] != v.cronTab.Name {
		return false
	}
	i := slices.IndexFunc(v.Jobs, func(job *batchv1.Job) bool { return job.UID == ref.UID })
	return i < 0 || v.isRun(v.Jobs[i])
}

// isNamedAsRun reports whether a Job that is gone was a run, judging by its name.
func (v *view) isNamedAsRun(owner samplev1.AddressOwner) bool {
	there := slices.ContainsFunc(v.Jobs, func(job *batchv1.Job) bool { return job.Name == owner.Name })
	return owner.Kind == "Job" && !there && strings.HasPrefix(owner.Name, v.cronTab.Name+"-")
}

func isBatch(ref *metav1.OwnerReference) bool {
	return strings.HasPrefix(ref.APIVersion, batchv1.GroupName+"/")
}

// missingNetworks returns the Networks of the spec that do not exist, in name order.
func (v *view) missingNetworks() []string {
	var missing []string
	for _, n := range v.cronTab.Spec.Networks {
		if !slices.ContainsFunc(v.Networks, func(e *samplev1.Network) bool { return e.Name == n.Name }) {
			missing = append(missing, n.Name)
		}
	}
	slices.Sort(missing)
	return missing
}

// goingNetworks returns the Networks of the spec that are being deleted, in name order.
func (v *view) goingNetworks() []string {
	var going []string
	for _, n := range v.Networks {
		if n.DeletionTimestamp != nil {
			going = append(going, n.Name)
		}
	}
	return going
}

// running returns the timetable of the runs once the plan is applied. If apply failed, it
// is that of the existing CronJob. It is nil if no run is started.
func (v *view) running() *timetable {
	c := v.CronJob
	kept := v.ours() && c.DeletionTimestamp == nil
	switch {
	case v.failure != nil && kept && !ptr.Deref(c.Spec.Suspend, false):
		is, _ := v.read(timetable{cronSpec: c.Spec.Schedule, timeZone: c.Spec.TimeZone, deadline: c.Spec.StartingDeadlineSeconds, zone: v.CronJobZone})
		return is
	case v.failure != nil, v.cronTab.DeletionTimestamp != nil, v.suspended(), c != nil && !kept:
		return nil
	}
	return v.asked
}

// nextRun returns when the next run is due; zero if none is.
func (v *view) nextRun() time.Time {
	t := v.running()
	if t == nil {
		return time.Time{}
	}
	var from time.Time
	if v.CronJob != nil {
		from = v.CronJob.CreationTimestamp.Time
		if last := v.CronJob.Status.LastScheduleTime; last != nil {
			from = last.Time
		}
	}
	return next(t.schedule, v.Now.In(t.zone), from)
}

func (v *view) suspended() bool { return ptr.Deref(v.cronTab.Spec.Suspend, false) }

// live reports whether a pod runs or soon will.
func live(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !attachment.Over(pod) }
