package pod2

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// status is what the Pod2 says of what was observed, nil if it says so already.
func (v *view) status(failures map[int]failure) *v1.Pod2Status {
	return v.statusWith(v.ready(failures))
}

// Failure is what stopped apply. Reason is CamelCase, such as FailedCreate.
type Failure struct{ Reason, Message string }

// WithFailure is the status to be written when apply was stopped: the counters as
// observed, and Ready=False with what stopped it. It is nil when the status says
// so already, and for a Pod2 that is being deleted.
func WithFailure(s State, f Failure) *v1.Pod2Status {
	if s.Pod2.DeletionTimestamp != nil {
		return nil
	}
	return look(s).statusWith(notReady(f.Reason, cut(f.Message, maxMessage)))
}

func (v *view) statusWith(ready metav1.Condition) *v1.Pod2Status {
	status := v.pod2.Status.DeepCopy()
	v.count(status)
	status.UpdateRevision = v.hash
	if v.settled(status) {
		status.CurrentRevision = v.hash
	}
	status.Selector = v1.Pod2Label + "=" + v.pod2.Name
	status.Networks = v.networkNames()
	status.ObservedGeneration = v.pod2.Generation

	ready.Type = v1.ConditionReady
	ready.ObservedGeneration = v.pod2.Generation
	ready.LastTransitionTime = metav1.NewTime(v.now)
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(*status, v.pod2.Status) {
		return nil
	}
	return status
}

func (v *view) count(status *v1.Pod2Status) {
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.UpdatedReplicas = 0, 0, 0, 0
	for _, r := range slices.Concat(v.replicas, v.surplus) {
		if !r.live() {
			continue
		}
		status.Replicas++
		if r.ready {
			status.ReadyReplicas++
		}
		if r.available {
			status.AvailableReplicas++
		}
		if r.outdated == "" {
			status.UpdatedReplicas++
		}
	}
}

// settled says that the update has arrived: no replica of the old template is
// left, and one of the new exists, unless none is wanted. A Pod2 that never had
// a current revision has nothing to update from.
func (v *view) settled(counted *v1.Pod2Status) bool {
	return counted.UpdatedReplicas == counted.Replicas &&
		(counted.UpdatedReplicas > 0 || len(v.replicas) == 0 || counted.CurrentRevision == "")
}

func (v *view) networkNames() string {
	return strings.Join(slices.Sorted(slices.Values(Networks(v.pod2))), ",")
}
