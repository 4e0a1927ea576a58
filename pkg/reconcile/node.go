package reconcile

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/node"
)

// AgentSelector selects pods of pod2-agent, see artifacts/agent. It proves nothing
// outside their namespace, where any user may label a pod.
const AgentSelector = "app.kubernetes.io/name=pod2-agent"

// nodeKind writes the condition of Nodes about their agents.
type nodeKind struct{ *shared }

// observe reads the view of one Node and of the agents on it. If a Node is replaced, the
// agents of the old one count for the new one until the kubelet or the pod garbage
// collector removes them. The condition shows their reports.
func (r *nodeKind) observe(key Key) (node.State, time.Duration, error) {
	return node.State{
		Now: r.clock.Now(), Namespace: r.settings.AgentNamespace,
		Node: r.nodes.get("", key.Name), Agents: r.agents.by(byNode, key.Name),
	}, 0, nil
}

// apply writes the plan. The kubelet owns the rest of a Node's status and may write it at
// any time. So this is a patch of the one condition, by its type.
func (r *nodeKind) apply(ctx context.Context, key Key, _ node.State, plan node.Plan) (Result, error) {
	result := Result{RequeueAfter: plan.RequeueAfter}
	if plan.Empty() {
		return result, nil
	}
	condition, why := any(plan.Set), "the Node has no agent"
	if plan.Remove {
		condition = map[string]string{"type": v1.ConditionDataPlaneReady, "$patch": "delete"}
	} else {
		why = string(plan.Set.Status) + ": " + plan.Set.Reason
	}
	_, err := r.writeNodes.patch(ctx, key, fenced.Version(key.Name, plan.UID, plan.ResourceVersion), v1.ConditionDataPlaneReady+": "+why,
		nil, fenced.Fields{"status": fenced.Fields{"conditions": []any{condition}}}, "status")
	return result, err
}

// byNode finds the agents on a Node. Its values are names of Nodes.
const byNode = "node"

// nodeOfPod returns no name for a pod that is not scheduled yet.
func nodeOfPod(pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

func nodesOfAgent(pod *corev1.Pod) []Key {
	var keys []Key
	for _, name := range nodeOfPod(pod) {
		keys = append(keys, Key{Kind: KindNode, Name: name})
	}
	return keys
}
