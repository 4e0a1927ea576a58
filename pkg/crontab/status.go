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

// Reasons of the conditions; the first that applies is shown.
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

// Reasons of a failure.
const (
	ReasonFailedCreate = "FailedCreate"
	ReasonFailedUpdate = "FailedUpdate"
	ReasonFailedDelete = "FailedDelete"
	// ReasonOverruled: the API server did not keep the values of the CronJob as written.
	ReasonOverruled = "Overruled"
)

// mendable are the reasons that a user can fix; an event reports them too.
var mendable = map[string]bool{
	ReasonNameTaken: true, ReasonInvalidSchedule: true, ReasonInvalidTimeZone: true, ReasonNeverDue: true, ReasonNetworkNotFound: true, ReasonNetworkTerminating: true,
}

// WithFailure returns the status to write when apply was stopped. Ready reports the
// cause, and the rest describes the CronJob. It is nil if it is already written. The
// event follows it, once for each cause.
func WithFailure(s State, f plan.Failure) (*v1.CronTabStatus, []plan.Event) {
	v := look(s)
	f.Message = shorten.To(f.Message, shorten.EventMessage)
	v.failure = &f
	status := v.status()
	return status, v.told(status)
}

// Observed returns the status to write when a possibly temporary error stopped apply. Its
// counters are current; conditions and generation stay as written. It is nil if it is
// already written.
func Observed(s State) *v1.CronTabStatus {
	status := look(s).status()
	if status == nil {
		return nil
	}
	status.Conditions, status.ObservedGeneration = s.CronTab.Status.Conditions, s.CronTab.Status.ObservedGeneration
	return plan.Changed(status, s.CronTab.Status)
}

// status returns the CronTab's status, nil if it is already written.
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

// statusMayWait reports whether the new status differs from the written one in times and
// numbers only. All of them change within seconds when a run starts, and again when it
// ends.
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

// later returns the later of two times. The CronTab remembers runs that a recreated
// CronJob does not know.
func later(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && a.Before(b) {
		return b.DeepCopy()
	}
	return a
}

// ready returns the condition Ready. It is True if the CronJob matches the CronTab, and
// no run waits for anything that a user must provide.
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

// scheduled returns the condition Scheduled: whether there will be a next run.
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

// obstacle returns why the CronJob does not match the CronTab; without a reason if it
// does.
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

// predecessor reports whether the garbage collector is going to delete the CronJob,
// because its owner, an earlier CronTab with the same name, was deleted.
func (v *view) predecessor() bool {
	ref := metav1.GetControllerOfNoCopy(v.CronJob)
	return ref != nil && ref.Kind == cronTabKind.Kind && ref.Name == v.cronTab.Name && strings.HasPrefix(ref.APIVersion, cronTabKind.Group+"/")
}

func (v *view) holder() string {
	if ref := metav1.GetControllerOfNoCopy(v.CronJob); ref != nil {
		return fmt.Sprintf("is owned by %s %s", ref.Kind, ref.Name)
	}
	return "has no controller"
}

// waitingForAddresses reports the first pod that says in its own condition why it waits.
// A pod that is about to get its addresses has no such condition.
func (v *view) waitingForAddresses() string {
	for _, pod := range v.pods {
		if c := attachment.Condition(pod, samplev1.ConditionAddressesBound); live(pod) && c != nil && c.Status == corev1.ConditionFalse {
			return pod.Name + ": " + c.Message
		}
	}
	return ""
}
