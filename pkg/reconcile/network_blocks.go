package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/plan"
)

// writeLedger writes AddressBlocks. Writes that take addresses from pods need the
// confirmation that these pods have terminated. Writes that bind need the confirmation
// that the Network is as in the view. If one AddressBlock is refused, the others are still
// written. It returns the successful writes.
func (r *networkKind) writeLedger(ctx context.Context, key Key, state network.State, writes []network.BlockWrite) ([]network.BlockWrite, error) {
	var leaving []network.PodRef
	for _, w := range writes {
		leaving = append(leaving, w.ConfirmOver...)
	}
	unconfirmed := r.over.confirm(ctx, key, leaving)
	if unconfirmed != nil {
		if endsSteps(unconfirmed) {
			return nil, unconfirmed
		}
		writes = slices.DeleteFunc(slices.Clone(writes), func(w network.BlockWrite) bool { return len(w.ConfirmOver) > 0 })
	}
	if binds := func(w network.BlockWrite) bool { return w.Binds }; slices.ContainsFunc(writes, binds) {
		if err := r.live.confirmNetwork(ctx, key, state.Network); err != nil {
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

// writeBlock makes one write to an AddressBlock. A new AddressBlock is created empty and
// gets its entries by an update, like an AddressBlock that was found empty.
func (r *networkKind) writeBlock(ctx context.Context, key Key, state network.State, w network.BlockWrite) error {
	if w.Restored {
		if err := r.live.confirmRestored(ctx, key, state.Network, w); err != nil {
			return err
		}
	}
	if (w.Fresh || w.Inherits) && len(w.Block.Spec.Entries) > 0 {
		if err := r.live.confirmUnseen(ctx, key, state.Pods, w.Block, r.writePods.unwatched); err != nil {
			return err
		}
	}
	seen, wanted := w.Seen, w.Block
	switch w.Verb {
	case network.Delete:
		return r.writeBlocks.delete(ctx, key, plan.Delete(seen, summary(w.Changes)))
	case network.Create:
		empty := w.Block.DeepCopy()
		empty.Spec.Entries = []v1.AddressEntry{}
		created, err := r.writeBlocks.create(ctx, key, empty, "")
		if err != nil {
			return err
		}
		if err := r.live.confirmNetwork(ctx, key, state.Network); err != nil {
			return err
		}
		seen, wanted = created, created.DeepCopy()
		wanted.Spec.Entries = w.Block.Spec.Entries
	}
	return r.writeBlocks.change(ctx, key, fenced.AsSeen(seen), summary(w.Changes), blockChanges(seen, wanted)...)
}

// tellPod explains to the user of a pod why it waits.
func (r *networkKind) tellPod(ctx context.Context, key Key, w network.Wait) error {
	if err := r.setCondition(ctx, key, w.Pod, w.Condition); err != nil {
		return err
	}
	if w.Event {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: w.Pod.Name, UID: w.Pod.UID}}
		r.recorder.Event(pod, corev1.EventTypeWarning, w.Condition.Reason, w.Condition.Message)
	}
	return nil
}

// summary keeps log lines short when one write binds 256 pods.
func summary(changes []string) string {
	const shown = 3
	if len(changes) <= shown {
		return strings.Join(changes, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(changes[:shown], "; "), len(changes)-shown)
}
