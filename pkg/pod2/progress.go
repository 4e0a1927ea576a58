package pod2

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Reasons of the conditions Available and Progressing.
const (
	ReasonMinimumAvailable         = "MinimumReplicasAvailable"
	ReasonMinimumUnavailable       = "MinimumReplicasUnavailable"
	ReasonComplete                 = "Complete"
	ReasonProgressing              = "Progressing"
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	ReasonPaused                   = "Paused"
)

// enough returns the condition Available. A Pod2 without any available replica is not
// Available, even if maxUnavailable allows that, unless spec.replicas is 0.
func (v *view) enough(counted *v1.Pod2Status) metav1.Condition {
	least := max(v.leastAvailable(), min(v.replicas, 1))
	text := fmt.Sprintf("%d replicas are available (at least %d required)", counted.AvailableReplicas, least)
	if int(counted.AvailableReplicas) >= least {
		return plan.True(ReasonMinimumAvailable, text)
	}
	return plan.False(ReasonMinimumUnavailable, text+"; "+each(v.unsteady(v.replicas), v.unready))
}

// progressing returns the condition Progressing.
//
//	complete           nothing left to do: True
//	paused             Unknown, and the deadline does not run
//	past the deadline  False, with the obstacle
//	else               True
func (v *view) progressing(ready metav1.Condition) metav1.Condition {
	stands := ready.Message
	if ready.Status == metav1.ConditionTrue { // the obstacle is not a replica
		stands = cmp.Or(each(slices.All(v.surplus), func(_ int, r replica) string { return v.leaving(r) }), each(v.unsteady(v.replicas), mislabelled), stands)
	}
	switch deadline := v.deadline(); {
	case v.complete():
		return plan.True(ReasonComplete, v.completeText())
	case v.pod2.Spec.Paused:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: ReasonPaused, Message: "updates are paused (spec.paused)"}
	case !deadline.IsZero() && !v.now.Before(deadline):
		return plan.False(ReasonProgressDeadlineExceeded, fmt.Sprintf("no progress for %d seconds: %s", v.deadlineSeconds(), stands))
	}
	return plan.True(ReasonProgressing, stands)
}

// mislabelled reports a replica with labels to change.
func mislabelled(_ int, r replica) string {
	if r.relabelling == nil {
		return ""
	}
	return fmt.Sprintf("labels of %s are not up to date (%s)", r.pod.Name, r.relabelling.keys())
}

// leaving reports a pod without a place.
func (v *view) leaving(r replica) string {
	switch lost := v.lost(r); {
	case lost != "":
		return lost
	case r.terminating:
		return r.pod.Name + " is terminating"
	}
	return r.pod.Name + " is being scaled down"
}

// complete reports whether every replica exists, is available and has its labels, and no
// other pod is left. All replicas except those that a partition or OnDelete keeps must have
// the update revision.
func (v *view) complete() bool {
	if v.revisions.tooLarge > 0 {
		return false
	}
	for _, r := range v.unsteady(v.replicas) {
		if !r.serves() || r.stale || r.relabelling != nil || v.pod2.Spec.Paused && r.outdated != "" {
			return false
		}
	}
	if v.replicas == 0 && v.pod2.Spec.Paused && v.revisions.current != v.revisions.update {
		return false
	}
	return len(v.surge) == 0 && len(v.surplus) == 0
}

// completeText says whether a partition or OnDelete keeps replicas that are not updated.
func (v *view) completeText() string {
	for _, r := range v.unsteady(v.replicas) {
		if r.outdated != "" {
			return fmt.Sprintf("%d of %d replicas are updated, as far as updateStrategy allows", v.counted.updated, v.replicas)
		}
	}
	return "all replicas match the spec"
}

// deadline returns when progress is overdue; zero means never.
func (v *view) deadline() time.Time {
	if v.pod2.Spec.Paused || v.complete() {
		return time.Time{}
	}
	since := v.lastProgress()
	return since.Add(time.Duration(v.deadlineSeconds()) * time.Second)
}

func (v *view) deadlineSeconds() int32 { return ptr.Deref(v.pod2.Spec.ProgressDeadlineSeconds, 600) }

// lastProgress returns the current time if one of these happened:
//   - the spec changed
//   - an update was resumed
//   - a complete Pod2 is no longer complete
//   - a counter of the status moved forward
//
// Otherwise it returns the recorded time. While replicas terminate and come back, only
// the counter of available replicas counts, because that cycle moves all others.
func (v *view) lastProgress() metav1.Time {
	was := v.pod2.Status
	condition := meta.FindStatusCondition(was.Conditions, v1.ConditionProgressing)
	idle := condition != nil && (condition.Reason == ReasonComplete || condition.Reason == ReasonPaused)
	off := func(replicas int32) int { return max(int(replicas)-v.replicas, v.replicas-int(replicas)) }
	moved := v.counted.available > was.AvailableReplicas || len(v.failures()) == 0 &&
		(off(v.counted.live) < off(was.Replicas) || v.counted.updated > was.UpdatedReplicas || v.counted.ready > was.ReadyReplicas)
	if was.LastProgressTime == nil || was.ObservedGeneration != v.pod2.Generation || idle || moved {
		return metav1.NewTime(v.now.Truncate(time.Second))
	}
	return *was.LastProgressTime
}

// overdue is how long after its grace period a terminating pod is reported.
const overdue = 30 * time.Second

func (r replica) overdueAt() time.Time { return r.pod.DeletionTimestamp.Add(overdue) }

// lost reports a pod that its node has not confirmed as stopped. Until then its name and
// its addresses are not reused: it may still run.
func (v *view) lost(r replica) string {
	if r.pod == nil || !r.own || !r.terminating || v.now.Before(r.overdueAt()) || len(r.pod.Finalizers) > 0 {
		return ""
	}
	return fmt.Sprintf("pod %s is stuck terminating: node %s has not confirmed that it stopped. If the node is permanently gone, delete the Node, "+
		"or taint it %s=nodeshutdown:NoExecute", r.pod.Name, r.pod.Spec.NodeName, corev1.TaintNodeOutOfService)
}
