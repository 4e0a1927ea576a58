package spec

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// NodeDone describes the remaining work for the condition DataPlaneReady of a Node. agents are
// the pods of the agent on the Node. The condition is True while one of them is Ready and
// is not being deleted, else False. It is removed ten seconds after the last agent pod is
// gone.
func NodeDone(node *corev1.Node, agents []*corev1.Pod, now time.Time) string {
	ready := slices.ContainsFunc(agents, Serves)
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == v1.ConditionDataPlaneReady })
	if i < 0 {
		if len(agents) > 0 {
			return "the condition is missing"
		}
		return ""
	}
	is, want := node.Status.Conditions[i], corev1.ConditionFalse
	reason := "AgentNotReady"
	if ready {
		want, reason = corev1.ConditionTrue, "AgentReady"
	}
	since := now.Sub(is.LastTransitionTime.Time)
	switch {
	case is.Status != want:
		return fmt.Sprintf("the condition is %s", is.Status)
	case len(agents) == 0 && (since < 0 || since >= 10*time.Second):
		return "the condition is about an agent that is gone"
	case len(agents) > 0 && is.Reason != reason:
		return "the condition has the reason " + is.Reason
	}
	return ""
}
