package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/node"
)

// AgentSelector is what pods of pod2-agent have, by artifacts/agent. It says nothing
// outside their namespace, where anybody may label a pod.
const AgentSelector = "app.kubernetes.io/name=pod2-agent"

func (r *Reconciler) syncNode(ctx context.Context, key Key) (Result, error) {
	state, err := r.observeNode(key)
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	plan := node.Diff(state)
	if err := r.applyNode(ctx, key, plan); err != nil {
		return Result{}, err
	}
	return Result{RequeueAfter: plan.RequeueAfter}, nil
}

// observeNode reads the view of one Node and of the agents on it. Agents of a Node that
// is gone are those of its successor too, until the kubelet or the garbage collector of
// pods has said otherwise: what the condition says is what they report.
func (r *Reconciler) observeNode(key Key) (state node.State, err error) {
	state = node.State{
		Now: r.clock.Now(), Namespace: r.settings.AgentNamespace,
		Agents: indexed[*corev1.Pod](r.informers.Agents.Informer().GetIndexer(), byNode, key.Name),
	}
	state.Node, err = absent(r.informers.Nodes.Lister().Get(key.Name))
	return state, err
}

// applyNode writes the plan. The rest of a Node's status is its kubelet's, which may
// write it at any time: hence a patch of the one condition, by its type.
func (r *Reconciler) applyNode(ctx context.Context, key Key, plan node.Plan) error {
	if plan.Empty() {
		return nil
	}
	patch, err := nodePatch(plan)
	if err != nil {
		return fmt.Errorf("make the patch of %s: %w", key, err)
	}
	patched, err := r.clients.Kube.CoreV1().Nodes().Patch(ctx, key.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch the condition %s of %s: %w", v1.ConditionDataPlaneReady, key, stale(err))
	}
	r.written.wrote(key, nodesResource, patched.ResourceVersion)
	if plan.Remove {
		klog.FromContext(ctx).Info("Removed the Node's condition: no agent is there", "condition", v1.ConditionDataPlaneReady)
		return nil
	}
	klog.FromContext(ctx).Info("Set the Node's condition", "condition", plan.Set.Type, "status", plan.Set.Status, "reason", plan.Set.Reason)
	return nil
}

func nodePatch(plan node.Plan) ([]byte, error) {
	condition := any(plan.Set)
	if plan.Remove {
		condition = map[string]string{"type": v1.ConditionDataPlaneReady, "$patch": "delete"}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": plan.UID, "resourceVersion": plan.ResourceVersion},
		"status":   map[string]any{"conditions": []any{condition}},
	})
}

// nodeWatches says which Nodes an event concerns. There are none where nobody looks for
// agents.
func (r *Reconciler) nodeWatches() []Watch {
	if r.settings.AgentNamespace == "" {
		return nil
	}
	return []Watch{
		{Informer: r.informers.Nodes.Informer(), Keys: func(obj any) []Key {
			node, ok := obj.(*corev1.Node)
			if !ok {
				return nil
			}
			return []Key{{Kind: KindNode, Name: node.Name}}
		}},
		{Informer: r.informers.Agents.Informer(), Keys: func(obj any) []Key {
			var keys []Key
			names, _ := podNode(obj)
			for _, name := range names {
				keys = append(keys, Key{Kind: KindNode, Name: name})
			}
			return keys
		}},
	}
}

// addNodeIndexes is part of New.
func (i Informers) addNodeIndexes() error {
	return i.Agents.Informer().AddIndexers(cache.Indexers{byNode: podNode})
}

// podNode is the node of a pod; one that is yet to be scheduled has none.
func podNode(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil, nil
	}
	return []string{pod.Spec.NodeName}, nil
}
