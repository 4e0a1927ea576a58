package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// State is all that one decision is made from: one view, read from caches.
type State struct {
	// Now dates the condition, and says for how long there has been no agent.
	Now time.Time
	// Node is nil when there is none; of its conditions, only ours is looked at.
	Node *corev1.Node
	// Namespace of the agents.
	Namespace string
	// Agents are the agent's pods on a node of that name, in any order: two while one
	// replaces the other.
	Agents []*corev1.Pod
}

// goneAfter is how long there has been no agent before the condition goes. Where the
// agent is updated, its next pod is on the node well before that; without the wait, each
// update would take the condition from every node for a moment and give it back.
const goneAfter = 10 * time.Second

// condition is ours, as the Node has it; nil: it has none.
func (s State) condition() *corev1.NodeCondition {
	for i := range s.Node.Status.Conditions {
		if c := &s.Node.Status.Conditions[i]; c.Type == v1.ConditionDataPlaneReady {
			return c
		}
	}
	return nil
}

// ready says whether an agent keeps the node's kernel. One that is being deleted is about
// to leave it alone; one that is over may have been Ready to its end.
func (s State) ready() bool {
	return slices.ContainsFunc(s.Agents, func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && !attachment.Over(pod) && attachment.Ready(pod)
	})
}

// stays is for how long yet a False condition stays although there is no agent. One whose
// time is to come was written by another clock, or by hand, and goes at once.
func (s State) stays(c *corev1.NodeCondition) time.Duration {
	since := s.Now.Sub(c.LastTransitionTime.Time)
	if since < 0 || since >= goneAfter {
		return 0
	}
	return goneAfter - since
}
