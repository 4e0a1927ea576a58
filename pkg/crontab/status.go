package crontab

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/internal/shorten"
	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// Reasons of the conditions, the first that applies is given.
const (
	ReasonTerminating         = "Terminating"
	ReasonNameTaken           = "NameTaken"
	ReasonWaitingForDeletion  = "WaitingForDeletion"
	ReasonInvalidSchedule     = "InvalidSchedule"
	ReasonInvalidTimeZone     = "InvalidTimeZone"
	ReasonNeverDue            = "NeverDue"
	ReasonSuspended           = "Suspended"
	ReasonNetworkNotFound     = "NetworkNotFound"
	ReasonNetworkTerminating  = "NetworkTerminating"
	ReasonWaitingForAddresses = "WaitingForAddresses"
	ReasonScheduled           = "Scheduled"
)

// mendable reasons are told in an event too.
var mendable = map[string]bool{
	ReasonNameTaken: true, ReasonInvalidSchedule: true, ReasonInvalidTimeZone: true, ReasonNeverDue: true, ReasonNetworkNotFound: true, ReasonNetworkTerminating: true,
}

// Failure is what stopped apply. Reason is CamelCase, such as FailedCreate.
type Failure struct{ Reason, Message string }

// WithFailure is the status to be written when apply was stopped: Ready says what
// stopped it, the rest is as the CronJob is. It is nil when the status says so
// already. The event follows it, once for each thing that stops apply.
func WithFailure(s State, f Failure) (*v1.CronTabStatus, []Event) {
	v := look(s)
	v.failure = &problem{f.Reason, shorten.To(f.Message, shorten.EventMessage)}
	status := v.status()
	return status, v.told(status)
}

// Observed is the status to be written when apply was stopped by what may be over soon:
// the counters as they are, and conditions and generation as they were told. It is nil
// when the status says so already.
func Observed(s State) *v1.CronTabStatus {
	status := look(s).status()
	if status == nil {
		return nil
	}
	status.Conditions, status.ObservedGeneration = s.CronTab.Status.Conditions, s.CronTab.Status.ObservedGeneration
	if equality.Semantic.DeepEqual(*status, s.CronTab.Status) {
		return nil
	}
	return status
}

// status is what the CronTab says, nil if it says so already.
func (v *view) status() *v1.CronTabStatus {
	status := v.cronTab.Status.DeepCopy()
	status.Active, status.NextScheduleTime = 0, nil
	if v.ours() {
		status.Active = int32(len(v.CronJob.Status.Active))
		status.LastScheduleTime = later(status.LastScheduleTime, v.CronJob.Status.LastScheduleTime)
		status.LastSuccessfulTime = later(status.LastSuccessfulTime, v.CronJob.Status.LastSuccessfulTime)
	}
	if at := v.nextRun(); !at.IsZero() {
		status.NextScheduleTime = &metav1.Time{Time: at.UTC()}
	}
	status.Replicas = 0
	for _, pod := range v.pods {
		if live(pod) {
			status.Replicas++
		}
	}
	status.Selector = v1.CronTabLabel + "=" + v.cronTab.Name
	status.ObservedGeneration = v.cronTab.Generation
	v.set(status, v1.ConditionReady, v.ready())
	v.set(status, v1.ConditionScheduled, v.scheduled())
	if equality.Semantic.DeepEqual(*status, v.cronTab.Status) {
		return nil
	}
	return status
}

// StatusMayWait says whether the status to be written differs in times and numbers alone from the
// one that is stored. They all change when a run begins, one after the other within seconds, and
// again when it ends.
func (p Plan) StatusMayWait(s State) bool {
	return p.Status != nil && equality.Semantic.DeepEqual(withoutNumbers(*p.Status), withoutNumbers(s.CronTab.Status))
}

func withoutNumbers(status v1.CronTabStatus) v1.CronTabStatus {
	status.Active, status.Replicas = 0, 0
	status.LastScheduleTime, status.LastSuccessfulTime, status.NextScheduleTime = nil, nil, nil
	return status
}

func (v *view) set(status *v1.CronTabStatus, kind string, c metav1.Condition) {
	c.Type, c.ObservedGeneration, c.LastTransitionTime = kind, v.cronTab.Generation, metav1.NewTime(v.Now)
	meta.SetStatusCondition(&status.Conditions, c)
}

// later of two times. A CronJob that was deleted and created again knows of no
// run; the CronTab does.
func later(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && a.Before(b) {
		return b.DeepCopy()
	}
	return a
}

// ready says that the CronJob is as the CronTab wants it and no run waits for
// something that a user has to provide.
func (v *view) ready() metav1.Condition {
	if c := v.obstacle(); c.Reason != "" {
		return c
	}
	if missing := v.missingNetworks(); len(missing) > 0 {
		return refusal(ReasonNetworkNotFound, fmt.Sprintf("Network %s does not exist: pods of a run wait, unscheduled, until it is created", strings.Join(missing, ", ")))
	}
	if going := v.goingNetworks(); len(going) > 0 {
		return refusal(ReasonNetworkTerminating, fmt.Sprintf("Network %s is being deleted: pods of a run wait, unscheduled, until it is gone and created anew", strings.Join(going, ", ")))
	}
	if waiting := v.waitingForAddresses(); waiting != "" {
		return refusal(ReasonWaitingForAddresses, waiting)
	}
	if v.suspended() {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: ReasonSuspended, Message: "the CronJob is suspended, as spec.suspend says"}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: ReasonScheduled, Message: "the CronJob is as this CronTab says"}
}

// scheduled says that there will be a next run.
func (v *view) scheduled() metav1.Condition {
	if t := v.running(); t != nil {
		message := fmt.Sprintf("runs by the schedule %q", t.cronSpec)
		if t.timeZone != nil {
			message += " of " + *t.timeZone
		}
		if v.problem != nil { // and the CronJob could not be suspended
			message += "; " + v.problem.message
		}
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: ReasonScheduled, Message: message}
	}
	if c := v.obstacle(); c.Reason != "" {
		return c
	}
	return refusal(ReasonSuspended, "no further run is started until spec.suspend is false")
}

// obstacle is why the CronJob is not as the CronTab wants it; no reason if it is.
func (v *view) obstacle() metav1.Condition {
	name := v.cronTab.Name
	switch {
	case v.failure != nil:
		return refusal(v.failure.reason, v.failure.message)
	case v.cronTab.DeletionTimestamp != nil:
		return refusal(ReasonTerminating, fmt.Sprintf("the finalizer %s waits for %s", v1.WaitFinalizer, Waits(v.State)))
	case v.problem != nil:
		return refusal(v.problem.reason, v.problem.message)
	case v.CronJob == nil:
		return metav1.Condition{}
	case !v.ours() && v.predecessor():
		return refusal(ReasonWaitingForDeletion, fmt.Sprintf("CronJob %s of an earlier CronTab %[1]s is still there", name))
	case !v.ours():
		return refusal(ReasonNameTaken, fmt.Sprintf("CronJob %s exists already and %s: delete it to let the CronTab have the name", name, v.holder()))
	case v.CronJob.DeletionTimestamp != nil:
		return refusal(ReasonWaitingForDeletion, fmt.Sprintf("CronJob %s is being deleted; then it is created anew", name))
	}
	return metav1.Condition{}
}

// predecessor says that the garbage collector is to remove the CronJob, because
// the CronTab of the same name that owned it is gone.
func (v *view) predecessor() bool {
	ref := metav1.GetControllerOfNoCopy(v.CronJob)
	return ref != nil && ref.Kind == cronTabKind.Kind && ref.Name == v.cronTab.Name && strings.HasPrefix(ref.APIVersion, cronTabKind.Group+"/")
}

func (v *view) holder() string {
	if ref := metav1.GetControllerOfNoCopy(v.CronJob); ref != nil {
		return fmt.Sprintf("belongs to %s %s", ref.Kind, ref.Name)
	}
	return "has no controller"
}

// waitingForAddresses names the first pod whose own condition says what it waits
// for; a pod that is about to be served has none.
func (v *view) waitingForAddresses() string {
	for _, pod := range v.pods {
		for _, c := range pod.Status.Conditions {
			if live(pod) && c.Type == samplev1.ConditionAddressesBound && c.Status == corev1.ConditionFalse {
				return pod.Name + ": " + c.Message
			}
		}
	}
	return ""
}

func refusal(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
