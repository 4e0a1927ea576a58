package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// State is the input of one decision. It is one view, read from caches.
type State struct {
	// Now dates the condition, and says how long there has been no agent.
	Now time.Time
	// Node is nil if it does not exist. Diff reads only our condition of it.
	Node *corev1.Node
	// Namespace of the agents.
	Namespace string
	// Agents are the agent's pods on a node with this name, in any order: two while one
	// replaces the other.
	Agents []*corev1.Pod
}

// goneAfter is how long there must be no agent before the condition is removed. During an
// update of the agent, its next pod arrives on the node much earlier. Without the wait,
// each update would briefly remove the condition from every node.
const goneAfter = 10 * time.Second

// condition returns our condition of the Node; nil: it has none.
func (s State) condition() *corev1.NodeCondition {
	for i := range s.Node.Status.Conditions {
		if c := &s.Node.Status.Conditions[i]; c.Type == v1.ConditionDataPlaneReady {
			return c
		}
	}
	return nil
}

// ready says whether an agent maintains the node's kernel. An agent that is being deleted
// will stop soon. A terminated agent may have been Ready to its end.
func (s State) ready() bool {
	return slices.ContainsFunc(s.Agents, func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && !attachment.Over(pod) && attachment.Ready(pod)
	})
}

// stays is how much longer a False condition without an agent stays. If its time is in
// the future, another clock or a user wrote it, and it is removed at once.
func (s State) stays(c *corev1.NodeCondition) time.Duration {
	since := s.Now.Sub(c.LastTransitionTime.Time)
	if since < 0 || since >= goneAfter {
		return 0
	}
	return goneAfter - since
}
