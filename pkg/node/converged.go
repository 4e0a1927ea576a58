package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Converged says "" when no write is due, else the first thing that is not as it should
// be. It is what "done" means, written apart from the way there:
//
//   - a Node has the condition while an agent is on it, and for a moment after;
//   - it is True exactly while an agent is Ready;
//   - reason and message are those of its status.
func Converged(s State) string {
	if s.Node == nil {
		return ""
	}
	is, agents := s.condition(), len(s.Agents) > 0
	switch {
	case is == nil && !agents:
		return ""
	case is == nil:
		return "the condition is missing"
	case (is.Status == corev1.ConditionTrue) != s.ready(), is.Status != corev1.ConditionTrue && is.Status != corev1.ConditionFalse:
		return fmt.Sprintf("the condition is %s", is.Status)
	case !agents && s.stays(is) == 0:
		return "the condition is of an agent that is gone"
	case !agents:
		return "" // whatever it says, it goes
	case s.ready() && (is.Reason != ReasonAgentReady || is.Message != readyMessage),
		!s.ready() && (is.Reason != ReasonAgentNotReady || is.Message != s.notReady()):
		return "the condition says something else"
	}
	return ""
}
