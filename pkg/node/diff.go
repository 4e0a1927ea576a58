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

const readyMessage = "pod2-agent has the kernel of this node as Networks want it"

// Diff decides what is to be written to one Node. First match wins:
//
//	no Node                                nothing: the condition went with it
//	a Ready agent                          True
//	agents, none of them Ready             False
//	no agent, no condition                 nothing
//	no agent, False for long enough        remove it
//	no agent, False since a moment ago     leave it, and look again
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

// notReady says what to do in words that stay the same from the first container to the
// last, and from one pod to the next: a message that told more would be a write for each.
func (s State) notReady() string {
	return fmt.Sprintf("no pod of pod2-agent on this node is Ready, so its kernel may not be as Networks want it: see "+
		"kubectl --namespace=%s get pods --field-selector=spec.nodeName=%s, and kubectl logs of what it names", s.Namespace, s.Node.Name)
}

// changed is the condition as it shall be, nil if it is so.
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
