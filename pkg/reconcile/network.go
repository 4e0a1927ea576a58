package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
)

func (r *Reconciler) syncNetwork(ctx context.Context, key Key) (Result, error) {
	state, again, err := r.observeNetwork(key)
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	plan := network.Diff(state)
	if err := r.applyNetwork(ctx, key, state, plan); err != nil {
		return Result{}, err
	}
	return Result{RequeueAfter: soonest(plan.RequeueAfter, again)}, nil
}

// applyNetwork writes the plan in the order of its fields and stops at the first
// error. The next sync sees how far it got.
func (r *Reconciler) applyNetwork(ctx context.Context, key Key, state network.State, plan network.Plan) error {
	current := state.Network
	if plan.AddFinalizer {
		next := current.DeepCopy()
		next.Finalizers = append(next.Finalizers, v1.InUseFinalizer)
		var err error
		if current, err = r.updateNetwork(ctx, key, next, "add the finalizer"); err != nil {
			return err
		}
	}
	if err := r.confirmOver(ctx, key, plan.Blocks); err != nil {
		return err
	}
	for _, w := range plan.Blocks {
		if err := r.writeBlock(ctx, key, state.Network, w); err != nil {
			return err
		}
	}
	if plan.RemoveFinalizer {
		next := current.DeepCopy()
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == v1.InUseFinalizer })
		if _, err := r.updateNetwork(ctx, key, next, "remove the finalizer"); err != nil {
			return err
		}
		return nil // it may be gone now; there is nothing left to say in its status
	}
	err := forEach(ctx, plan.Waits, func(ctx context.Context, w network.Wait) error {
		return r.patchCondition(ctx, key, w.Pod, w.Condition)
	})
	if err != nil {
		return err
	}
	if plan.Status != nil {
		next := current.DeepCopy()
		next.Status = *plan.Status
		updated, err := r.clients.Sample.SamplecrdV1().Networks(key.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("update the status of %s: %w", key, stale(err))
		}
		r.written.wrote(key, networksResource, updated.ResourceVersion)
	}
	for _, e := range plan.Events {
		r.recorder.Event(state.Network, e.Type, e.Reason, e.Message)
	}
	return nil
}

func (r *Reconciler) updateNetwork(ctx context.Context, key Key, next *v1.Network, what string) (*v1.Network, error) {
	updated, err := r.clients.Sample.SamplecrdV1().Networks(key.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", what, key, stale(err))
	}
	r.written.wrote(key, networksResource, updated.ResourceVersion)
	klog.FromContext(ctx).Info("Updated Network", "change", what)
	return updated, nil
}

// confirmListFrom is the number of pods from which one list is cheaper than so
// many gets.
const confirmListFrom = 32

// confirmOver checks by a live read, made after the ledger was read, that the
// pods whose entries leave the state Bound are over. Those that are not were missed
// by our watch: they are remembered, and the decision is stale.
func (r *Reconciler) confirmOver(ctx context.Context, key Key, writes []network.BlockWrite) error {
	var refs []network.PodRef
	for _, w := range writes {
		refs = append(refs, w.ConfirmOver...)
	}
	live, err := r.livePods(ctx, key.Namespace, refs)
	if err != nil {
		return fmt.Errorf("confirm for %s that pods are over: %w", key, err)
	}
	var alive []string
	for _, ref := range refs {
		if pod := live[ref.Name]; !network.Over(ref, pod) {
			// All of them at once: were it one a sync, the first would be forgotten
			// before the last is found.
			r.found.remember(pod)
			alive = append(alive, ref.String())
		}
	}
	if len(alive) > 0 {
		return fmt.Errorf("%s: not over, as the cache has it, are pods of namespace %s (was their label %s removed?): %s: %w",
			key, key.Namespace, v1.ManagedLabel, summary(alive), ErrStale)
	}
	return nil
}

// livePods reads the named pods from the API server, quorum reads all; those that
// do not exist are absent. The list has no label selector: a label can be removed
// from a pod that lives.
func (r *Reconciler) livePods(ctx context.Context, namespace string, refs []network.PodRef) (map[string]*corev1.Pod, error) {
	live := make(map[string]*corev1.Pod, len(refs))
	if len(refs) < confirmListFrom {
		for _, ref := range refs {
			pod, err := r.clients.Kube.CoreV1().Pods(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("get pod %s/%s: %w", namespace, ref.Name, err)
			}
			live[pod.Name] = pod
		}
		return live, nil
	}
	page := metav1.ListOptions{Limit: 500}
	for {
		pods, err := r.clients.Kube.CoreV1().Pods(namespace).List(ctx, page)
		if err != nil {
			return nil, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
		}
		for i := range pods.Items {
			slim, _ := SlimPod(&pods.Items[i])
			live[pods.Items[i].Name] = slim.(*corev1.Pod)
		}
		if page.Continue = pods.Continue; page.Continue == "" {
			return live, nil
		}
	}
}

// writeBlock makes one write to the ledger.
func (r *Reconciler) writeBlock(ctx context.Context, key Key, n *v1.Network, w network.BlockWrite) error {
	blocks := r.clients.Sample.SamplecrdV1().AddressBlocks(key.Namespace)
	var written *v1.AddressBlock
	var err error
	switch w.Verb {
	case network.Create:
		if err := r.confirmNetwork(ctx, key, n); err != nil {
			return err
		}
		written, err = blocks.Create(ctx, w.Block, metav1.CreateOptions{})
	case network.Update:
		written, err = blocks.Update(ctx, w.Block, metav1.UpdateOptions{})
	case network.Delete:
		err = blocks.Delete(ctx, w.Block.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &w.Block.UID, ResourceVersion: ptr.To(w.Block.ResourceVersion)},
		})
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s block %s/%s: %w", w.Verb, key.Namespace, w.Block.Name, stale(err))
	case written != nil:
		r.written.wrote(key, blocksResource, written.ResourceVersion)
	default:
		r.written.deleted(key, blocksResource, path(key.Namespace, w.Block.Name), w.Block.UID)
	}
	klog.FromContext(ctx).Info("Wrote ledger", "verb", w.Verb, "block", w.Block.Name, "changes", summary(w.Changes))
	return nil
}

// confirmNetwork checks by a live read that the Network still stands as the view
// has it, and with the finalizer: a block made for a Network that is gone would
// hold its addresses for nobody.
func (r *Reconciler) confirmNetwork(ctx context.Context, key Key, n *v1.Network) error {
	live, err := r.clients.Sample.SamplecrdV1().Networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get %s before a block of it is created: %w", key, stale(err))
	}
	if live.UID != n.UID || !slices.Contains(live.Finalizers, v1.InUseFinalizer) ||
		(live.DeletionTimestamp != nil) != (n.DeletionTimestamp != nil) {
		return fmt.Errorf("%s was deleted or recreated meanwhile: %w", key, ErrStale)
	}
	return nil
}

// patchCondition tells a pod's user why it waits. The UID in the body is the
// precondition: the API server refuses to change it.
func (r *Reconciler) patchCondition(ctx context.Context, key Key, pod network.PodRef, condition corev1.PodCondition) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	if err != nil {
		return fmt.Errorf("encode the condition of pod %s/%s: %w", key.Namespace, pod.Name, err)
	}
	patched, err := r.clients.Kube.CoreV1().Pods(key.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch the status of pod %s/%s: %w", key.Namespace, pod.Name, stale(err))
	}
	r.written.wrote(key, podsResource, patched.ResourceVersion)
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
