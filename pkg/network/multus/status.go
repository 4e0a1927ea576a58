package multus

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Reasons of the condition Attachable.
const (
	ReasonDefined            = "Defined"
	ReasonSharedWire         = "SharedWire"
	ReasonNotInstalled       = "NotInstalled"
	ReasonNoFreeVNI          = "NoFreeVNI"
	ReasonInvalidConfig      = "InvalidConfig"
	ReasonNameTaken          = "NameTaken"
	ReasonWaitingForDeletion = "WaitingForDeletion"
	ReasonFailedWrite        = "FailedWrite"
)

// ReasonIPAMReplaced is the reason of the event about an ipam that is not used.
const ReasonIPAMReplaced = "IPAMReplaced"

// finding says why pods cannot be attached; zero: they can.
type finding struct{ reason, message string }

// Observed returns the status and events to write after a failed write of the plan. These
// are the plan's, unless they report something that was not done: that pods can be
// attached, or that a number was claimed.
func (p Plan) Observed() (*v1.NetworkStatus, []plan.Event) {
	if p.Status == nil || p.Claim != nil || meta.IsStatusConditionTrue(p.Status.Conditions, v1.ConditionAttachable) {
		return nil, nil
	}
	return p.Status, p.Events
}

// WithFailure returns the status and events to write after a write was refused with this
// message. The status is nil if it does not change.
func WithFailure(s State, message string) (*v1.NetworkStatus, []plan.Event) {
	if s.Network == nil {
		return nil, nil
	}
	vni, claim := s.vni()
	if claim {
		vni = s.Network.Status.VNI // the claim may or may not have succeeded
	}
	return s.status(vni, finding{ReasonFailedWrite, message})
}

// status returns the status of the Network with the number and our condition, or nil if
// it does not change.
func (s State) status(vni int32, found finding) (*v1.NetworkStatus, []plan.Event) {
	status := s.Network.Status.DeepCopy()
	status.VNI = vni
	c := plan.True(ReasonDefined, "pods are attached by NetworkAttachmentDefinition "+s.Name)
	c.Type = v1.ConditionAttachable
	lost := s.lostIPAM()
	if lost != "" {
		c.Message = shorten.To(c.Message+"; "+lost, shorten.EventMessage)
	}
	switch other := s.shared(); {
	case found == (finding{}) && other != nil:
		c.Reason = ReasonSharedWire
		c.Message = shorten.To(fmt.Sprintf("%s; Network %s/%s hands out some of the same addresses on the same wire (%s), so two pods may get one address. "+
			"Divide them by spec.exclude, or use CIDRs that do not overlap", c.Message, other.Namespace, other.Name, Wire(s.Network)), shorten.EventMessage)
	case found != (finding{}):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, found.reason, shorten.To(found.message, shorten.EventMessage)
	}
	plan.SetCondition(&status.Conditions, c.Type, s.Network.Generation, s.Now, c)
	if plan.Changed(status, s.Network.Status) == nil {
		return nil, nil
	}
	told := events(s.Network.Status.Conditions, c)
	if was := meta.FindStatusCondition(s.Network.Status.Conditions, c.Type); lost != "" && c.Reason == ReasonDefined && (was == nil || was.Message != c.Message) {
		told = append(told, plan.Warning(ReasonIPAMReplaced, c.Message))
	}
	return status, told
}

// events returns an event if a new problem needs a fix by the user.
func events(before []metav1.Condition, c metav1.Condition) []plan.Event {
	quiet := c.Reason == ReasonDefined || c.Reason == ReasonNotInstalled || c.Reason == ReasonWaitingForDeletion
	if quiet || plan.Said(before, &c) {
		return nil
	}
	return []plan.Event{plan.Warning(c.Reason, c.Message)}
}
