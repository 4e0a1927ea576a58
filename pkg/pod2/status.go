package pod2

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// status returns the status for the observed state, nil if it is already written.
func (v *view) status(failures map[int]failure) *v1.Pod2Status {
	return v.statusWith(v.ready(failures))
}

// statusMayWait reports whether the new status differs from the written one only in numbers
// and in the reasons of conditions that are False. While replicas are created or deleted, these
// are outdated before anyone reads them: a replica is first missing, then waits for its address,
// and is then not ready. A plan that creates many replicas takes so long that its status need not
// wait as well.
func (p Plan) statusMayWait(s State) bool {
	const many = 100
	return p.Status != nil && len(p.Create) < many && equality.Semantic.DeepEqual(withoutSteps(*p.Status), withoutSteps(s.Pod2.Status))
}

func withoutSteps(status v1.Pod2Status) v1.Pod2Status {
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.UpdatedReplicas = 0, 0, 0, 0
	status.LastProgressTime = nil
	status.Conditions = plan.WithoutMessages(status.Conditions)
	for i := range status.Conditions {
		if status.Conditions[i].Status == metav1.ConditionFalse {
			status.Conditions[i].Reason = ""
		}
	}
	return status
}

// Reasons of a failure.
const (
	ReasonFailedAdopt  = "FailedAdopt"
	ReasonFailedCreate = "FailedCreate"
	ReasonFailedDelete = "FailedDelete"
	ReasonFailedUpdate = "FailedUpdate"
)

// WithFailures returns the status to write when parts of a plan failed. It has the
// observed counters, and Ready=False with each failure and the reason of the first.
// Failures to resize PVCs alone go into ClaimsResized, because they do not affect the
// replicas. It returns nil if that status is already written, and for a Pod2 that is
// being deleted.
func WithFailures(s State, failures []plan.Failure) *v1.Pod2Status {
	if s.Pod2.DeletionTimestamp != nil {
		return nil
	}
	v := look(s)
	var reason string
	var messages []string
	for _, f := range failures {
		switch {
		case f.Reason == ReasonFailedResize:
			v.resizeFailed = shorten.To(f.Message, shorten.EventMessage)
		case !slices.Contains(messages, f.Message):
			reason = cmp.Or(reason, f.Reason)
			messages = append(messages, f.Message)
		}
	}
	if reason == "" {
		return v.status(v.failures())
	}
	return v.statusWith(plan.False(reason, v.keptMessage(reason, shorten.To(strings.Join(messages, "; "), shorten.EventMessage))))
}

// keptMessage is the present message of Ready if it differs from the new one in names of replicas alone. The API server names the
// replica that it refuses, and each sync may begin with another one. A new text would wake the Pod2 at once, without
// backoff.
func (v *view) keptMessage(reason, message string) string {
	is := meta.FindStatusCondition(v.pod2.Status.Conditions, v1.ConditionReady)
	if is != nil && is.Reason == reason && v.withoutOrdinals(is.Message) == v.withoutOrdinals(message) {
		return is.Message
	}
	return message
}

// withoutOrdinals makes the names web-1 and data-web-23 in a message web- and data-web-.
func (v *view) withoutOrdinals(message string) string {
	parts := strings.Split(message, v.pod2.Name+"-")
	for i := range parts[1:] {
		parts[i+1] = strings.TrimLeft(parts[i+1], "0123456789")
	}
	return strings.Join(parts, v.pod2.Name+"-")
}

func (v *view) statusWith(ready metav1.Condition) *v1.Pod2Status {
	status := v.pod2.Status.DeepCopy()
	v.names.Tell(status)
	v.count(status)
	status.UpdateRevision = v.revisions.update.object.Name
	if v.settled(status) {
		status.CurrentRevision = status.UpdateRevision
	}
	if v.revisions.collisions > 0 {
		status.CollisionCount = &v.revisions.collisions
	}
	if !v.complete() && !v.pod2.Spec.Paused {
		status.LastProgressTime = ptr.To(v.lastProgress())
	}
	status.Selector = v1.Pod2Label + "=" + v.pod2.Name
	status.Networks = v.networkNames()
	status.ObservedGeneration = v.pod2.Generation

	v.set(status, v1.ConditionReady, ready)
	v.set(status, v1.ConditionAvailable, v.enough(status))
	v.set(status, v1.ConditionProgressing, v.progressing(ready))
	if len(v.pod2.Spec.VolumeClaimTemplates) > 0 {
		v.set(status, v1.ConditionClaimsResized, v.resized())
	}
	return plan.Changed(status, v.pod2.Status)
}

func (v *view) set(status *v1.Pod2Status, kind string, c metav1.Condition) {
	plan.SetCondition(&status.Conditions, kind, v.pod2.Generation, v.now, c)
}

func (v *view) count(status *v1.Pod2Status) {
	status.Replicas, status.ReadyReplicas = v.counted.live, v.counted.ready
	status.AvailableReplicas, status.UpdatedReplicas = v.counted.available, v.counted.updated
}

// settled reports whether the update is complete: every replica exists and has this
// revision. A Pod2 that never had a current revision has nothing to update from. With a
// pause or a partition, a Pod2 without replicas keeps its current revision.
func (v *view) settled(counted *v1.Pod2Status) bool {
	if held := v.pod2.Spec.Paused || v.partition() > 0; held && v.replicas == 0 && counted.CurrentRevision != "" {
		return false
	}
	if counted.CurrentRevision == "" && counted.UpdatedReplicas == counted.Replicas {
		return true
	}
	for _, r := range v.unsteady(v.replicas) {
		if !r.live() || r.outdated != "" {
			return false
		}
	}
	return true
}

func (v *view) networkNames() string {
	return strings.Join(slices.Sorted(slices.Values(Networks(v.pod2))), ",")
}
