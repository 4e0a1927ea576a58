package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Reasons of the condition.
const (
	ReasonAgentReady    = "AgentReady"
	ReasonAgentNotReady = "AgentNotReady"
)

const readyMessage = "Data plane is programmed"

// Diff decides which write one Node needs. First match wins:
//
//	no Node                                nothing: the condition is gone with it
//	a Ready agent                          True
//	agents, none of them Ready             False
//	no agent, no condition                 nothing
//	no agent, False for long enough        remove it
//	no agent, False for a moment           leave it, and look again
//	no agent, anything else                False
func Diff(s State) Plan {
	if s.Node == nil {
		return Plan{}
	}
	p := Plan{Node: s.Node.Name, UID: s.Node.UID, ResourceVersion: s.Node.ResourceVersion}
	is := s.condition()
	switch {
	case s.ready():
		p.Set = s.changed(is, corev1.ConditionTrue, ReasonAgentReady, readyMessage)
	case len(s.Agents) == 0 && is == nil:
	case len(s.Agents) == 0 && is.Status == corev1.ConditionFalse:
		p.RequeueAfter = s.stays(is)
		p.Remove = p.RequeueAfter == 0
	default:
		p.Set = s.changed(is, corev1.ConditionFalse, ReasonAgentNotReady, s.notReady())
	}
	return p
}

// notReady tells the user how to find the problem. The message stays the same while the
// agent's containers start and its pods change, because each change of a message would be
// a write.
func (s State) notReady() string {
	return fmt.Sprintf("no pod2-agent pod on this node is Ready, so the data plane may be incomplete: run "+
		"kubectl --namespace=%s get pods --field-selector=spec.nodeName=%s, and kubectl logs for the pods that it lists", s.Namespace, s.Node.Name)
}

// changed returns the desired condition, or nil if it does not change.
func (s State) changed(is *corev1.NodeCondition, status corev1.ConditionStatus, reason, message string) *corev1.NodeCondition {
	now := metav1.NewTime(s.Now)
	want := &corev1.NodeCondition{
		Type: v1.ConditionDataPlaneReady, Status: status, Reason: reason, Message: message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	if is == nil {
		return want
	}
	if is.Status == status && is.Reason == reason && is.Message == message {
		return nil
	}
	if is.Status == status {
		want.LastTransitionTime = is.LastTransitionTime
	}
	return want
}
