package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/plan"
)

func (r *Reconciler) syncNetwork(ctx context.Context, key Key) (Result, error) {
	state, again, err := r.observeNetwork(key)
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	plan := network.Diff(state)
	if left := r.releases.left(key); left > 0 && plan.MayWait {
		return Result{RequeueAfter: soonest(soonest(plan.RequeueAfter, again), left)}, nil
	}
	if left := r.counts.left(key); left > 0 && plan.StatusMayWait(state) {
		plan.Status, again = nil, soonest(again, left)
	}
	if err := r.applyNetwork(ctx, key, state, plan); err != nil {
		return Result{}, err
	}
	if plan.MayWait {
		r.releases.begin(key)
	}
	return Result{RequeueAfter: soonest(plan.RequeueAfter, again)}, nil
}

// applyNetwork writes the plan in the order of its fields. What failed on the way keeps
// nothing from being done that does not depend on it; the next sync sees how far it got.
func (r *Reconciler) applyNetwork(ctx context.Context, key Key, state network.State, plan network.Plan) error {
	steps, current, planned := r.steps(key), state.Network, plan.Blocks
	if (plan.AddFinalizer || plan.Begin) && !steps.do(network.ReasonFailedWrite, func() (err error) {
		updated, err := r.markNetwork(ctx, key, current, plan)
		if err == nil {
			current = updated
		}
		return err
	}) {
		plan = plan.WithoutFinalizer()
	}
	var written []network.BlockWrite
	steps.do(network.ReasonFailedWrite, func() (err error) {
		written, err = r.writeBlocks(ctx, key, state, plan.Blocks)
		return err
	})
	if !steps.failed() {
		r.record(state.Network, plan.GivenAway)
	}
	if plan.RemoveFinalizer && !steps.failed() && steps.do(network.ReasonFailedWrite, func() error { return r.removeFinalizer(ctx, key, current) }) {
		return nil // it may be gone now; there is nothing left to say in its status
	}
	if steps.failed() {
		return r.tellNetwork(ctx, steps, state, current, without(planned, written))
	}
	// A pod that cannot be told why it waits does not keep the Network from saying so.
	_, untold := forEach(ctx, plan.Waits, func(ctx context.Context, w network.Wait) error {
		return r.tellPod(ctx, key, w)
	})
	if plan.Status != nil {
		if err := r.updateNetworkStatus(ctx, key, current, *plan.Status); err != nil {
			return errors.Join(untold, err)
		}
	}
	r.record(state.Network, plan.Events)
	return untold
}

func (r *Reconciler) record(on runtime.Object, events []plan.Event) {
	for _, e := range events {
		r.recorder.Event(on, e.Type, e.Reason, e.Message)
	}
}

// markNetwork adds the finalizer, or the mark that the Network begins to bind, in one
// write.
func (r *Reconciler) markNetwork(ctx context.Context, key Key, current *v1.Network, plan network.Plan) (*v1.Network, error) {
	next := current.DeepCopy()
	if plan.AddFinalizer {
		next.Finalizers = append(next.Finalizers, v1.InUseFinalizer)
	}
	if plan.Begin {
		if err := r.confirmAlive(ctx, key, plan.Alive); err != nil {
			return nil, err
		}
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1.NetworkUIDAnnotation, string(next.UID))
	}
	if _, chosen := next.Annotations[v1.GatewayAnnotation]; !chosen {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1.GatewayAnnotation, network.GatewayText(current))
	}
	return r.updateNetwork(ctx, key, current, next, "add the finalizer or mark")
}

func (r *Reconciler) removeFinalizer(ctx context.Context, key Key, current *v1.Network) error {
	if err := r.confirmSealed(ctx, key, current); err != nil {
		return err
	}
	next := current.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == v1.InUseFinalizer })
	_, err := r.updateNetwork(ctx, key, current, next, "remove the finalizer")
	return err
}

// writeBlocks makes the writes to the ledger, those that take addresses from pods once
// all of these are confirmed to be over, and those that bind once the Network is
// confirmed to be as the view has it. A block that is refused keeps no other from being
// written. It returns those that were.
func (r *Reconciler) writeBlocks(ctx context.Context, key Key, state network.State, writes []network.BlockWrite) ([]network.BlockWrite, error) {
	var leaving []network.PodRef
	for _, w := range writes {
		leaving = append(leaving, w.ConfirmOver...)
	}
	unconfirmed := r.confirmOver(ctx, key, leaving)
	if unconfirmed != nil {
		if endsSteps(unconfirmed) {
			return nil, unconfirmed
		}
		writes = slices.DeleteFunc(slices.Clone(writes), func(w network.BlockWrite) bool { return len(w.ConfirmOver) > 0 })
	}
	if binds := func(w network.BlockWrite) bool { return w.Binds }; slices.ContainsFunc(writes, binds) {
		if err := r.confirmNetwork(ctx, key, state.Network); err != nil {
			if endsSteps(err) {
				return nil, errors.Join(unconfirmed, err)
			}
			unconfirmed = errors.Join(unconfirmed, err)
			writes = slices.DeleteFunc(slices.Clone(writes), binds)
		}
	}
	written, err := forEachUntil(ctx, 1, writes, afterRefusals(), func(ctx context.Context, w network.BlockWrite) error {
		err := r.writeBlock(ctx, key, state, w)
		if err == nil {
			r.countBound(state, w)
		}
		return err
	})
	return written, errors.Join(unconfirmed, err)
}

// without are the writes that are not among those that were made.
func without(planned, written []network.BlockWrite) []network.BlockWrite {
	return slices.DeleteFunc(slices.Clone(planned), func(w network.BlockWrite) bool {
		return slices.ContainsFunc(written, func(done network.BlockWrite) bool { return done.Block.Name == w.Block.Name })
	})
}

// tellNetwork writes what was observed into the status of a Network whose plan was not
// carried out, and what failed, and returns that. It tells the pods that wait for a block
// that was not written, too.
func (r *Reconciler) tellNetwork(ctx context.Context, steps *steps, state network.State, current *v1.Network, unwritten []network.BlockWrite) error {
	if steps.ended || current == nil {
		return steps.err()
	}
	message := ""
	if len(steps.told) > 0 {
		message = steps.told[0].Message
	}
	status := network.Observed(state, message)
	if status != nil && steps.do("", func() error { return r.updateNetworkStatus(ctx, steps.key, current, *status) }) && message != "" {
		r.recorder.Event(current, corev1.EventTypeWarning, network.ReasonFailedWrite, message)
	}
	if message != "" {
		steps.do("", func() error {
			_, err := forEach(ctx, network.Unwritten(state, unwritten, message), func(ctx context.Context, w network.Wait) error {
				return r.tellPod(ctx, steps.key, w)
			})
			return err
		})
	}
	return steps.err()
}

func (r *Reconciler) updateNetworkStatus(ctx context.Context, key Key, current *v1.Network, status v1.NetworkStatus) error {
	next := current.DeepCopy()
	next.Status = status
	updated, err := rewriteStatus(ctx, r.clients.Sample.SamplecrdV1().Networks(key.Namespace), current, next)
	if err != nil {
		return fmt.Errorf("update the status of %s: %w", key, stale(err))
	}
	r.written.wrote(key, networksResource, updated.ResourceVersion)
	r.counts.begin(key)
	return nil
}

func (r *Reconciler) updateNetwork(ctx context.Context, key Key, seen, next *v1.Network, what string) (*v1.Network, error) {
	updated, err := rewrite(ctx, r.clients.Sample.SamplecrdV1().Networks(key.Namespace), seen, next)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", what, key, stale(err))
	}
	r.written.wrote(key, networksResource, updated.ResourceVersion)
	klog.FromContext(ctx).Info("Updated Network", "change", what)
	return updated, nil
}

// writeBlock makes one write to the ledger. A new block is created empty, and gets
// its entries by an update, like one that was found empty.
func (r *Reconciler) writeBlock(ctx context.Context, key Key, state network.State, w network.BlockWrite) error {
	if w.Restored {
		if err := r.confirmRestored(ctx, key, state.Network, w); err != nil {
			return err
		}
	}
	if (w.Fresh || w.Inherits) && len(w.Block.Spec.Entries) > 0 {
		if err := r.confirmUnseen(ctx, key, state.Pods, w.Block); err != nil {
			return err
		}
	}
	if w.Verb == network.Create {
		block := w.Block.DeepCopy()
		block.Spec.Entries = []v1.AddressEntry{}
		created, err := r.callBlock(ctx, key, w.Verb, block)
		if err != nil {
			return err
		}
		if err := r.confirmNetwork(ctx, key, state.Network); err != nil {
			return err
		}
		block = created.DeepCopy()
		block.Spec.Entries = w.Block.Spec.Entries
		w.Verb, w.Block = network.Update, block
	}
	if _, err := r.callBlock(ctx, key, w.Verb, w.Block); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Wrote ledger", "verb", w.Verb, "block", w.Block.Name, "changes", summary(w.Changes))
	return nil
}

// callBlock makes one call; it returns the block as it is now, nil after a deletion.
func (r *Reconciler) callBlock(ctx context.Context, key Key, verb network.Verb, block *v1.AddressBlock) (written *v1.AddressBlock, err error) {
	blocks := r.clients.Sample.SamplecrdV1().AddressBlocks(key.Namespace)
	switch verb {
	case network.Create:
		written, err = blocks.Create(ctx, block, metav1.CreateOptions{})
	case network.Update:
		written, err = overwriteBlock(ctx, blocks, block)
	case network.Delete:
		err = blocks.Delete(ctx, block.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &block.UID, ResourceVersion: ptr.To(block.ResourceVersion)},
		})
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s block %s/%s: %w", verb, key.Namespace, block.Name, stale(err))
	case written != nil:
		r.written.wrote(key, blocksResource, written.ResourceVersion)
	default:
		r.written.deleted(key, blocksResource, path(key.Namespace, block.Name), block.UID)
	}
	return written, nil
}

// overwriteBlock writes all that changes in a block once it exists. To compare 256 entries would
// cost ten times as much as to encode them.
func overwriteBlock(ctx context.Context, in patcher[*v1.AddressBlock], block *v1.AddressBlock) (*v1.AddressBlock, error) {
	var inherited any // null removes it
	if at, ok := block.Annotations[v1.InheritedAnnotation]; ok {
		inherited = at
	}
	return overwrite(ctx, in, block,
		fields{"finalizers": block.Finalizers, "ownerReferences": block.OwnerReferences, "annotations": fields{v1.InheritedAnnotation: inherited}},
		fields{"spec": fields{"networkUID": block.Spec.NetworkUID, "sealed": block.Spec.Sealed, "entries": block.Spec.Entries}})
}

// tellPod tells a pod's user why it waits.
func (r *Reconciler) tellPod(ctx context.Context, key Key, w network.Wait) error {
	if err := r.patchCondition(ctx, key, w.Pod, w.Condition); err != nil {
		return err
	}
	if w.Event {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: w.Pod.Name, UID: w.Pod.UID}}
		r.recorder.Event(pod, corev1.EventTypeWarning, w.Condition.Reason, w.Condition.Message)
	}
	return nil
}

// conditionPatch has a message even if that is empty: in a patch that merges, what is
// absent stays.
type conditionPatch struct {
	corev1.PodCondition
	Message string `json:"message"`
}

// patchCondition writes the condition of a pod. The UID in the body is the
// precondition: the API server refuses to change it.
func (r *Reconciler) patchCondition(ctx context.Context, key Key, pod network.PodRef, condition corev1.PodCondition) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []conditionPatch{{condition, condition.Message}}},
	})
	if err != nil {
		return fmt.Errorf("encode the condition of pod %s/%s: %w", key.Namespace, pod.Name, err)
	}
	patched, err := r.clients.Kube.CoreV1().Pods(key.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch the status of pod %s/%s: %w", key.Namespace, pod.Name, stale(err))
	}
	r.found.wrote(r.written, key, podsResource, patched)
	klog.FromContext(ctx).Info("Set condition of pod", "pod", pod.Name, "status", condition.Status, "reason", condition.Reason)
	return nil
}

// summary keeps a log line readable when one write binds 256 pods.
func summary(changes []string) string {
	const shown = 3
	if len(changes) <= shown {
		return strings.Join(changes, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(changes[:shown], "; "), len(changes)-shown)
}
