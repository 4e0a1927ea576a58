package dns

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Reasons of the condition. It shows the reason of the first Network, in name order, that
// has a problem.
const (
	ReasonPublished          = "Published"
	ReasonNoAddresses        = "NoAddresses"
	ReasonInvalidServiceName = "InvalidServiceName"
	ReasonNameTaken          = "NameTaken"
	ReasonWaitingForDeletion = "WaitingForDeletion"
	ReasonServiceHasPorts    = "ServiceHasPorts"
)

// Reasons of a failure.
const (
	ReasonFailedCreate = "FailedCreate"
	ReasonFailedUpdate = "FailedUpdate"
	ReasonFailedDelete = "FailedDelete"
)

// Observed returns the status and the events for observed problems, independent of
// writes. It returns nil if there is no problem, or the status is already written.
func Observed(s State) (*v1.Pod2Status, []plan.Event) {
	v := look(s)
	if len(v.problems()) == 0 {
		return nil, nil
	}
	status := v.status()
	return status, v.events(status)
}

// WithFailures returns the status and the events to write when some writes were refused.
// The status is nil if it is already written.
func WithFailures(s State, failures []plan.Failure) (*v1.Pod2Status, []plan.Event) {
	v := look(s)
	status := v.status(failures...)
	return status, v.events(status)
}

// status returns the Pod2's status with the condition, or without it if there is no
// Network; nil if it is already written.
func (v *view) status(failures ...plan.Failure) *v1.Pod2Status {
	status := v.Pod2.Status.DeepCopy()
	if len(v.services) == 0 {
		meta.RemoveStatusCondition(&status.Conditions, v1.ConditionDNSPublished)
	} else {
		c := v.condition(failures)
		plan.SetCondition(&status.Conditions, v1.ConditionDNSPublished, v.Pod2.Generation, v.Now, c)
	}
	return plan.Changed(status, v.Pod2.Status)
}

// condition contains no pod and no number, so it changes only when something important
// happens. It is about the DNS names of existing addresses. A replica that waits for its
// address does not change it; Ready reports that one.
func (v *view) condition(failures []plan.Failure) metav1.Condition {
	problems := append(v.problems(), failures...)
	if len(problems) == 0 && v.unaddressed() {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: ReasonNoAddresses,
			Message: "no replica has an address yet; the condition Ready says why"}
	}
	if len(problems) == 0 {
		names := make([]string, 0, len(v.services))
		for _, s := range v.services {
			name := "<replica>." + s.name
			if s.left {
				name += " (until the last replica has left Network " + s.network + ")"
			}
			names = append(names, name)
		}
		return plan.True(ReasonPublished, shorten.To("each replica has a DNS name for each of its addresses: "+strings.Join(names, ", "), shorten.EventMessage))
	}
	messages := make([]string, 0, len(problems))
	for _, p := range problems {
		messages = append(messages, p.Message)
	}
	return plan.False(problems[0].Reason, shorten.To(strings.Join(messages, "; "), shorten.EventMessage))
}

// unaddressed reports whether replicas are wanted and none has an address that could have
// a DNS name.
func (v *view) unaddressed() bool {
	return ptr.Deref(v.Pod2.Spec.Replicas, 1) > 0 && !slices.ContainsFunc(v.members, func(m *fact) bool {
		return slices.ContainsFunc(v.services, func(s service) bool { _, ok := m.address(s.network); return ok })
	})
}

// events reports each problem that the user must fix, once, when it becomes the first
// problem.
func (v *view) events(status *v1.Pod2Status) []plan.Event {
	if status == nil {
		return nil
	}
	is := meta.FindStatusCondition(status.Conditions, v1.ConditionDNSPublished)
	if is == nil || is.Status != metav1.ConditionFalse || is.Reason == ReasonWaitingForDeletion || plan.Said(v.Pod2.Status.Conditions, is) {
		return nil
	}
	return []plan.Event{plan.Warning(is.Reason, is.Message)}
}

func conditionText(s *v1.Pod2Status) string {
	c := meta.FindStatusCondition(s.Conditions, v1.ConditionDNSPublished)
	if c == nil {
		return "without " + v1.ConditionDNSPublished
	}
	return fmt.Sprintf("%s=%s/%s(%s)", c.Type, c.Status, c.Reason, c.Message)
}
