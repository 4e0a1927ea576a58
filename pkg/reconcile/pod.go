package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
)

func (r *Reconciler) syncPod(ctx context.Context, key Key) (Result, error) {
	pod, err := absent(r.pods.Pods(key.Namespace).Get(key.Name))
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	if pod == nil {
		return Result{}, nil
	}
	state, err := r.observePod(key, pod)
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	steps, plan := r.steps(key), network.Publish(state)
	if plan.Stale != "" {
		return Result{}, fmt.Errorf("%s: %s: %w", key, plan.Stale, ErrStale)
	}
	if plan.Publish != nil {
		steps.do(network.ReasonFailedPublish, func() error { return r.publish(ctx, key, pod, plan.Publish) })
	}
	if len(steps.told) > 0 {
		plan = network.PublishFailed(state, steps.told[0].Message)
	}
	if plan.Condition != nil && steps.do("", func() error {
		return r.patchCondition(ctx, key, network.PodRef{Name: pod.Name, UID: pod.UID}, *plan.Condition)
	}) && plan.Event != nil {
		r.recorder.Event(pod, plan.Event.Type, plan.Event.Reason, plan.Event.Message)
	}
	return Result{}, steps.err()
}

// observePod reads the Networks that the pod asks for, each with the blocks that
// name it. A block that binds it and is of a Network that the cache does not have (of
// another UID, if it was recreated) is an old view: nothing would wake the pod when the
// Network appears.
func (r *Reconciler) observePod(key Key, pod *corev1.Pod) (network.PodState, error) {
	state := network.PodState{Now: r.clock.Now(), Pod: pod}
	requests, err := attachment.Requests(pod)
	if err != nil {
		return state, nil //nolint:nilerr // Publish reads the request again and tells the user
	}
	blocks := indexed[*v1.AddressBlock](r.blockIndex, byPod, path(key.Namespace, key.Name))
	for _, request := range requests {
		neighbour := network.Neighbour{Name: request.Network}
		if neighbour.Network, err = r.getNetwork(key.Namespace, request.Network); err != nil {
			return state, err
		}
		for _, block := range blocks {
			if block.Spec.Network != request.Network {
				continue
			}
			neighbour.Blocks = append(neighbour.Blocks, block)
			if attachment.Gated(pod) && binds(block, pod) && (neighbour.Network == nil || neighbour.Network.UID != block.Spec.NetworkUID) {
				return state, fmt.Errorf("block %s/%s is of a Network %s that the cache does not have: %w",
					key.Namespace, block.Name, request.Network, ErrStale)
			}
		}
		state.Networks = append(state.Networks, neighbour)
	}
	return state, nil
}

// binds says whether a block has an entry of this incarnation of a pod. One that was
// restored from a backup names pods that have other UIDs now.
func binds(block *v1.AddressBlock, pod *corev1.Pod) bool {
	return slices.ContainsFunc(block.Spec.Entries, func(e v1.AddressEntry) bool { return e.PodUID == pod.UID })
}

// publish puts the addresses into the pod and lifts our gate, in one write that
// carries its UID and resourceVersion. A gate of somebody else is left alone: the
// patch names ours, it does not rewrite the list.
func (r *Reconciler) publish(ctx context.Context, key Key, pod *corev1.Pod, p *network.Publication) error {
	annotations := map[string]string{v1.AddressesAnnotation: p.Addresses, v1.MultusAnnotation: p.Multus.Networks}
	if p.Multus.DefaultNetwork != "" {
		annotations[v1.MultusDefaultAnnotation] = p.Multus.DefaultNetwork
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
			"annotations": annotations,
		},
		"spec": map[string]any{"schedulingGates": []map[string]string{{"$patch": "delete", "name": v1.AddressesGate}}},
	})
	if err != nil {
		return fmt.Errorf("encode the addresses of %s: %w", key, err)
	}
	patched, err := r.clients.Kube.CoreV1().Pods(key.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("publish the addresses of %s: %w", key, stale(err))
	}
	r.found.wrote(r.written, key, podsResource, patched)
	publishDuration.Observe(r.sinceCreation(pod).Seconds())
	klog.FromContext(ctx).Info("Published addresses", "addresses", p.Addresses)
	return nil
}
