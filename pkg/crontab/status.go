package crontab

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/internal/shorten"
	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/plan"
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

// WithFailure is the status to be written when apply was stopped: Ready says what
// stopped it, the rest is as the CronJob is. It is nil when the status says so
// already. The event follows it, once for each thing that stops apply.
func WithFailure(s State, f plan.Failure) (*v1.CronTabStatus, []plan.Event) {
	v := look(s)
	f.Message = shorten.To(f.Message, shorten.EventMessage)
	v.failure = &f
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
	return plan.Changed(status, s.CronTab.Status)
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
	return plan.Changed(status, v.cronTab.Status)
}

// statusMayWait says whether the status to be written differs in times and numbers alone from the
// one that is stored. They all change when a run begins, one after the other within seconds, and
// again when it ends.
func (p Plan) statusMayWait(s State) bool {
	return p.Status != nil && equality.Semantic.DeepEqual(withoutNumbers(*p.Status), withoutNumbers(s.CronTab.Status))
}

func withoutNumbers(status v1.CronTabStatus) v1.CronTabStatus {
	status.Active, status.Replicas = 0, 0
	status.LastScheduleTime, status.LastSuccessfulTime, status.NextScheduleTime = nil, nil, nil
	return status
}

func (v *view) set(status *v1.CronTabStatus, kind string, c metav1.Condition) {
	plan.SetCondition(&status.Conditions, kind, v.cronTab.Generation, v.Now, c)
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
		return plan.False(ReasonNetworkNotFound, fmt.Sprintf("Network %s does not exist: pods of a run stay unscheduled until it is created", strings.Join(missing, ", ")))
	}
	if going := v.goingNetworks(); len(going) > 0 {
		return plan.False(ReasonNetworkTerminating, fmt.Sprintf("Network %s is being deleted: pods of a run stay unscheduled until it is deleted and recreated", strings.Join(going, ", ")))
	}
	if waiting := v.waitingForAddresses(); waiting != "" {
		return plan.False(ReasonWaitingForAddresses, waiting)
	}
	if v.suspended() {
		return plan.True(ReasonSuspended, "the CronJob is suspended (spec.suspend)")
	}
	return plan.True(ReasonScheduled, "the CronJob matches this CronTab")
}

// scheduled says that there will be a next run.
func (v *view) scheduled() metav1.Condition {
	if t := v.running(); t != nil {
		message := fmt.Sprintf("runs on schedule %q", t.cronSpec)
		if t.timeZone != nil {
			message += " in time zone " + *t.timeZone
		}
		if v.problem != nil { // and the CronJob could not be suspended
			message += "; " + v.problem.Message
		}
		return plan.True(ReasonScheduled, message)
	}
	if c := v.obstacle(); c.Reason != "" {
		return c
	}
	return plan.False(ReasonSuspended, "no run starts until spec.suspend is false")
}

// obstacle is why the CronJob is not as the CronTab wants it; no reason if it is.
func (v *view) obstacle() metav1.Condition {
	name := v.cronTab.Name
	switch {
	case v.failure != nil:
		return plan.False(v.failure.Reason, v.failure.Message)
	case v.cronTab.DeletionTimestamp != nil:
		return plan.False(ReasonTerminating, fmt.Sprintf("the finalizer %s waits for %s", v1.WaitFinalizer, Waits(v.State)))
	case v.problem != nil:
		return plan.False(v.problem.Reason, v.problem.Message)
	case v.CronJob == nil:
		return metav1.Condition{}
	case !v.ours() && v.predecessor():
		return plan.False(ReasonWaitingForDeletion, fmt.Sprintf("CronJob %s of an earlier CronTab %[1]s still exists", name))
	case !v.ours():
		return plan.False(ReasonNameTaken, fmt.Sprintf("CronJob %s already exists and %s: delete it so that the CronTab can use the name", name, v.holder()))
	case v.CronJob.DeletionTimestamp != nil:
		return plan.False(ReasonWaitingForDeletion, fmt.Sprintf("CronJob %s is being deleted; the controller then recreates it", name))
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
		if c := attachment.Condition(pod, samplev1.ConditionAddressesBound); live(pod) && c != nil && c.Status == corev1.ConditionFalse {
			return pod.Name + ": " + c.Message
		}
	}
	return ""
}
