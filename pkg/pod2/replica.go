package pod2

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// replica is a pod and its state for this Pod2; without a pod, a missing replica.
type replica struct {
	pod         *corev1.Pod
	record      inPlaceRecord // of the pod
	own         bool
	terminating bool
	over        bool
	ready       bool
	available   bool
	availableAt time.Time // when it is ready
	outdated    string    // why, "" if it matches the spec
	moved       string    // how the request for addresses differs, "" if it does not
	stale       bool      // to be updated
	step        *step     // if it is stale
	relabelling *Relabelling
}

func (v *view) replica(pod *corev1.Pod, place int, placed bool) replica {
	r := replica{pod: pod, record: recordedInPlace(pod), terminating: pod.DeletionTimestamp != nil, over: attachment.Over(pod)}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		r.own = ref.UID == v.pod2.UID
	}
	if c := attachment.Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue && r.record.restarting(pod) == "" {
		r.ready = true
		since := c.LastTransitionTime.Time
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range statuses { // a quick restart need not show in the condition
				if running := statuses[i].State.Running; running != nil && running.StartedAt.After(since) {
					since = running.StartedAt.Time
				}
			}
		}
		r.availableAt = since.Add(time.Duration(v.pod2.Spec.MinReadySeconds) * time.Second)
		r.available = v.pod2.Spec.MinReadySeconds <= 0 || !v.now.Before(r.availableAt)
	}
	if placed {
		r.moved = v.moved(pod, place)
	}
	r.outdated = v.outdated(r)
	if r.own {
		r.relabelling = v.relabelling(r, v.givenTo(pod.Labels[v1.PodTemplateHashLabel]))
	}
	return r
}

// outdated returns how the pod differs from one created now, "" if it does not.
func (v *view) outdated(r replica) string {
	if r.pod.Labels[v1.PodTemplateHashLabel] != v.revisions.update.hash {
		return "template changed"
	}
	if r.moved == "" && r.record.Resizing {
		return "resources of another template were requested"
	}
	return r.moved
}

// moved returns how the pod's request for addresses differs. Interfaces and addresses are
// not in the hash, because they differ by replica. It compares the request that the
// controller wrote. Otherwise a policy that changes every pod's request at creation would
// make the controller delete every pod. A pod without a place has no request to compare
// with.
func (v *view) moved(pod *corev1.Pod, place int) string {
	if is, want := pod.Annotations[v1.Pod2RequestAnnotation], v.requests.of(v.ordinals.At(place)); is != want {
		return fmt.Sprintf("request for addresses changed from %q to %q", is, want)
	}
	return ""
}

// live reports whether the pod serves or soon will.
func (r replica) live() bool { return r.pod != nil && r.own && !r.terminating && !r.over }

// serves reports whether the pod counts as available.
func (r replica) serves() bool { return r.live() && r.available }

// ended reports whether the pod terminated and is to be replaced after a delay.
func (r replica) ended() bool {
	return r.pod != nil && r.own && !r.terminating && r.over && !r.stale
}
