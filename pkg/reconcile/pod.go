package reconcile

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/network"
)

// podKind publishes the addresses of pods.
type podKind struct{ *shared }

// observe reads the Networks that the pod asks for, each with the AddressBlocks that name
// it.
func (r *podKind) observe(key Key) (network.PodState, time.Duration, error) {
	pod := r.pods.get(key.Namespace, key.Name)
	if pod == nil {
		return network.PodState{}, 0, errNothing
	}
	state := network.PodState{Now: r.clock.Now(), Pod: pod}
	requests, err := attachment.Requests(pod)
	if err != nil {
		return state, 0, nil //nolint:nilerr // Publish reads the request again and reports it to the user
	}
	blocks := r.blocksNaming(key.Namespace, key.Name)
	for _, request := range requests {
		neighbour := network.Neighbour{Name: request.Network, Network: r.networks.get(key.Namespace, request.Network)}
		for _, block := range blocks {
			if block.Spec.Network == request.Network {
				neighbour.Blocks = append(neighbour.Blocks, block)
			}
		}
		state.Networks = append(state.Networks, neighbour)
	}
	return state, 0, nil
}

func (r *podKind) apply(ctx context.Context, key Key, state network.PodState, plan network.PodPlan) (Result, error) {
	if plan.Stale != "" {
		return Result{}, fmt.Errorf("%s: %s: %w", key, plan.Stale, ErrStale)
	}
	steps, pod := r.steps(key), state.Pod
	if plan.Publish != nil {
		steps.do(network.ReasonFailedPublish, func() error { return r.publish(ctx, key, pod, plan.Publish) })
	}
	condition, event := plan.Condition, plan.Event
	if len(steps.told) > 0 {
		failed := network.PublishFailed(state, steps.told[0].Message)
		condition, event = failed.Condition, failed.Event
	}
	if condition != nil && steps.do("", func() error {
		return r.setCondition(ctx, key, network.PodRef{Name: pod.Name, UID: pod.UID}, *condition)
	}) && event != nil {
		r.recorder.Event(pod, event.Type, event.Reason, event.Message)
	}
	return Result{}, steps.err()
}

// publish writes the addresses into the pod, lifts our gate, and may clear managedFields, in
// one write that carries its UID and resourceVersion. It keeps the gates of other controllers.
func (r *podKind) publish(ctx context.Context, key Key, pod *corev1.Pod, p *network.Publication) error {
	for _, n := range p.Confirm {
		if err := r.live.confirmSame(ctx, key, n); err != nil {
			return err
		}
	}
	// A gated pod that requests addresses has annotations.
	changes := []fenced.Operation{fenced.Annotate(v1.AddressesAnnotation, p.Addresses), fenced.Annotate(v1.MultusAnnotation, p.Multus.Networks)}
	if p.Multus.DefaultNetwork != "" {
		changes = append(changes, fenced.Annotate(v1.MultusDefaultAnnotation, p.Multus.DefaultNetwork))
	}
	gate := fmt.Sprintf("/spec/schedulingGates/%d", attachment.GateIndex(pod))
	changes = append(changes, fenced.Operation{Op: "test", Path: gate + "/name", Value: v1.AddressesGate}, fenced.Operation{Op: "remove", Path: gate})
	if p.ClearManagedFields {
		changes = append(changes, fenced.ClearManagedFields)
	}
	err := r.writePods.change(ctx, key, fenced.AsSeen(pod), "publish "+p.Addresses, changes...)
	if err == nil {
		publishDuration.Observe(r.sinceCreation(pod).Seconds())
	}
	return err
}

// setCondition writes the condition of a pod at any resourceVersion, because the
// condition stays true.
func (s *shared) setCondition(ctx context.Context, key Key, pod network.PodRef, condition corev1.PodCondition) error {
	// A merge patch keeps absent fields, so the message is present even if it is empty.
	type patch struct {
		corev1.PodCondition
		Message string `json:"message"`
	}
	_, err := s.writePods.patch(ctx, key, fenced.Incarnation(pod.Name, pod.UID), fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Reason),
		nil, fenced.Fields{"status": fenced.Fields{"conditions": []patch{{condition, condition.Message}}}}, "status")
	return err
}
