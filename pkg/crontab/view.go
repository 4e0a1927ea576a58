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

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// view is a State with the schedule read and everything in its place.
type view struct {
	State
	cronTab *v1.CronTab
	// schedule is nil when there is a problem.
	schedule cron.Schedule
	problem  *problem
	// failure is what stopped apply.
	failure *problem
	// runs are the Jobs of the CronTab, pods those of its runs.
	runs []*batchv1.Job
	pods []*corev1.Pod
}

// problem is why nothing can run.
type problem struct{ reason, message string }

func look(s State) *view {
	v := &view{State: s, cronTab: s.CronTab}
	v.schedule, v.problem = read(s)
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

func read(s State) (cron.Schedule, *problem) {
	schedule, wrong := parse(s.CronTab.Spec.CronSpec)
	switch {
	case wrong != "":
		return nil, &problem{ReasonInvalidSchedule, wrong}
	case s.Zone == nil:
		return nil, &problem{ReasonInvalidTimeZone, fmt.Sprintf(
			"timeZone %q: %s; name one of the IANA database, such as Europe/Berlin", *s.CronTab.Spec.TimeZone, s.ZoneProblem)}
	case next(schedule, s.Now.In(s.Zone), s.Now).IsZero():
		return nil, &problem{ReasonNeverDue, fmt.Sprintf("cronSpec %q names no date that comes in the next years", s.CronTab.Spec.CronSpec)}
	}
	if deadline := s.CronTab.Spec.StartingDeadlineSeconds; deadline != nil && *deadline < leastDeadline(schedule) {
		return nil, &problem{ReasonNeverDue, fmt.Sprintf("with startingDeadlineSeconds %d Kubernetes starts no run of cronSpec %q, "+
			"as it looks no further back for one that is due: take it out, or give at least %d", *deadline, s.CronTab.Spec.CronSpec, leastDeadline(schedule))}
	}
	return schedule, nil
}

// ours says whether the CronJob is the CronTab's, by UID.
func (v *view) ours() bool {
	return v.CronJob != nil && metav1.IsControlledBy(v.CronJob, v.cronTab)
}

// orphans says that the CronTab's deletion keeps what it owns (--cascade=orphan):
// the garbage collector takes the owner reference off, and the CronJob is not ours.
func (v *view) orphans() bool {
	return slices.Contains(v.cronTab.Finalizers, metav1.FinalizerOrphanDependents)
}

// isRun says whether a Job is a run of the CronTab. Its CronJob may be gone and
// the Job about to follow it; Jobs of a CronJob that is not ours stay.
func (v *view) isRun(job *batchv1.Job) bool {
	ref := metav1.GetControllerOfNoCopy(job)
	if ref == nil || ref.Kind != "CronJob" || ref.Name != v.cronTab.Name || !isBatch(ref) {
		return false
	}
	return v.CronJob == nil || v.ours() || ref.UID != v.CronJob.UID
}

// isOfRun says whether a pod is of such a Job, or of one that is gone. A user may
// have orphaned a Job: then it is the user's, and so are its pods.
func (v *view) isOfRun(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "Job" || !isBatch(ref) || pod.Labels[v1.CronTabLabel] != v.cronTab.Name {
		return false
	}
	i := slices.IndexFunc(v.Jobs, func(job *batchv1.Job) bool { return job.UID == ref.UID })
	return i < 0 || v.isRun(v.Jobs[i])
}

// isNamedAsRun says whether a Job that is gone was a run, as far as its name tells.
func (v *view) isNamedAsRun(owner samplev1.AddressOwner) bool {
	there := slices.ContainsFunc(v.Jobs, func(job *batchv1.Job) bool { return job.Name == owner.Name })
	return owner.Kind == "Job" && !there && strings.HasPrefix(owner.Name, v.cronTab.Name+"-")
}

func isBatch(ref *metav1.OwnerReference) bool {
	return strings.HasPrefix(ref.APIVersion, batchv1.GroupName+"/")
}

// missingNetworks are those of the spec that do not exist, in name order.
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

// nextRun is when the next run is due; zero: none is.
func (v *view) nextRun() time.Time {
	if v.problem != nil || v.failure != nil || v.suspended() || v.cronTab.DeletionTimestamp != nil {
		return time.Time{}
	}
	var from time.Time
	if v.CronJob != nil {
		if !v.ours() || v.CronJob.DeletionTimestamp != nil {
			return time.Time{}
		}
		from = v.CronJob.CreationTimestamp.Time
		if last := v.CronJob.Status.LastScheduleTime; last != nil {
			from = last.Time
		}
	}
	return next(v.schedule, v.Now.In(v.Zone), from)
}

func (v *view) suspended() bool { return v.cronTab.Spec.Suspend != nil && *v.cronTab.Spec.Suspend }

// live pods are at work or about to be.
func live(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !attachment.Over(pod) }
