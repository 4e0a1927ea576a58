package pod2

import (
	"cmp"
	"fmt"
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

// enough is the condition Available. Whatever maxUnavailable allows an update to take, a Pod2
// without one available replica is not Available, unless it wants no replicas.
func (v *view) enough(counted *v1.Pod2Status) metav1.Condition {
	least := max(v.leastAvailable(), min(len(v.replicas), 1))
	text := fmt.Sprintf("%d replicas are available (at least %d required)", counted.AvailableReplicas, least)
	if int(counted.AvailableReplicas) >= least {
		return plan.True(ReasonMinimumAvailable, text)
	}
	return plan.False(ReasonMinimumUnavailable, text+"; "+each(v.replicas, v.unready))
}

// progressing is the condition of that name.
//
//	complete           nothing is left to come: True
//	paused             Unknown, and the deadline does not run
//	past the deadline  False, with what stands in the way
//	else               True
func (v *view) progressing(ready metav1.Condition) metav1.Condition {
	stands := ready.Message
	if ready.Status == metav1.ConditionTrue { // then others than the replicas stand in the way
		stands = cmp.Or(each(v.surplus, func(_ int, r replica) string { return v.leaving(r) }), each(v.replicas, mislabelled), stands)
	}
	switch deadline := v.deadline(); {
	case v.complete():
		return plan.True(ReasonComplete, "all replicas match the spec")
	case v.pod2.Spec.Paused:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: ReasonPaused, Message: "updates are paused (spec.paused)"}
	case !deadline.IsZero() && !v.now.Before(deadline):
		return plan.False(ReasonProgressDeadlineExceeded, fmt.Sprintf("no progress for %d seconds: %s", v.deadlineSeconds(), stands))
	}
	return plan.True(ReasonProgressing, stands)
}

// mislabelled speaks of a replica whose labels are to be changed.
func mislabelled(_ int, r replica) string {
	if r.relabelling == nil {
		return ""
	}
	return fmt.Sprintf("labels of %s are not up to date (%s)", r.pod.Name, r.relabelling.keys())
}

// leaving speaks of a pod without a place.
func (v *view) leaving(r replica) string {
	switch lost := v.lost(r); {
	case lost != "":
		return lost
	case r.terminating:
		return r.pod.Name + " is terminating"
	}
	return r.pod.Name + " is being scaled down"
}

// complete says that every replica is there, available, labelled and, but for those that are
// frozen, of the update revision, and that there is no other.
func (v *view) complete() bool {
	if v.revisions.tooLarge > 0 {
		return false
	}
	for _, r := range v.replicas {
		if !r.serves() || r.stale || r.relabelling != nil || v.pod2.Spec.Paused && r.outdated != "" {
			return false
		}
	}
	if len(v.replicas) == 0 && v.pod2.Spec.Paused && v.revisions.current != v.revisions.update {
		return false
	}
	return len(v.surge) == 0 && len(v.surplus) == 0
}

// deadline is when progress is overdue; zero: it never will be.
func (v *view) deadline() time.Time {
	if v.pod2.Spec.Paused || v.complete() {
		return time.Time{}
	}
	since := v.lastProgress()
	return since.Add(time.Duration(v.deadlineSeconds()) * time.Second)
}

func (v *view) deadlineSeconds() int32 { return ptr.Deref(v.pod2.Spec.ProgressDeadlineSeconds, 600) }

// lastProgress is now if the spec was changed, an update was resumed, what was
// complete is no longer so, or a counter of the status moved on; else as it was.
// Replicas that end and come back move all counters but that of those available.
func (v *view) lastProgress() metav1.Time {
	was := v.pod2.Status
	condition := meta.FindStatusCondition(was.Conditions, v1.ConditionProgressing)
	counted := &v1.Pod2Status{}
	v.count(counted)
	idle := condition != nil && (condition.Reason == ReasonComplete || condition.Reason == ReasonPaused)
	off := func(replicas int32) int { return max(int(replicas)-len(v.replicas), len(v.replicas)-int(replicas)) }
	moved := counted.AvailableReplicas > was.AvailableReplicas || len(v.failures()) == 0 &&
		(off(counted.Replicas) < off(was.Replicas) || counted.UpdatedReplicas > was.UpdatedReplicas || counted.ReadyReplicas > was.ReadyReplicas)
	if was.LastProgressTime == nil || was.ObservedGeneration != v.pod2.Generation || idle || moved {
		return metav1.NewTime(v.now.Truncate(time.Second))
	}
	return *was.LastProgressTime
}

// overdue is how long after its grace period a pod that terminates is spoken of.
const overdue = 30 * time.Second

func (r replica) overdueAt() time.Time { return r.pod.DeletionTimestamp.Add(overdue) }

// lost speaks of a pod whose node does not confirm its end. Its name and its
// addresses are not used again before: it may run.
func (v *view) lost(r replica) string {
	if r.pod == nil || !r.own || !r.terminating || v.now.Before(r.overdueAt()) || len(r.pod.Finalizers) > 0 {
		return ""
	}
	return fmt.Sprintf("pod %s is stuck terminating: node %s is not responding. If the node is permanently gone, delete the Node, "+
		"or taint it %s=nodeshutdown:NoExecute", r.pod.Name, r.pod.Spec.NodeName, corev1.TaintNodeOutOfService)
}
