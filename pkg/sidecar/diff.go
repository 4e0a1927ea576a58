package sidecar

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

// Reasons of the condition Ready.
const (
	// ReasonAccepted: the API server accepts a pod with this generation.
	ReasonAccepted = "Accepted"
	// ReasonRefused: the API server refuses it.
	ReasonRefused = "Refused"
	// ReasonConflict: another Sidecar of the same pods has a part of the same name.
	ReasonConflict = "Conflict"
	// ReasonTooMany: the namespace has more Sidecars than pods can get.
	ReasonTooMany = "TooMany"
)

// ReasonFailedUpdate of the condition Updated: the API server refused the update of a pod.
const ReasonFailedUpdate = "FailedUpdate"

// Diff decides about one Sidecar. It cannot fail.
func Diff(s State) Plan {
	if s.Sidecar.DeletionTimestamp != nil {
		return Plan{}
	}
	var p Plan
	ready := plan.True(ReasonAccepted, fmt.Sprintf("the API server accepted a pod with generation %d", s.Sidecar.Generation))
	switch many, conflict := s.tooMany(), s.conflict(); {
	case many != "":
		ready = plan.False(ReasonTooMany, many)
	case conflict != "":
		ready = plan.False(ReasonConflict, shorten.To(conflict, shorten.EventMessage))
	case accepted(s.Sidecar):
		ready.Message = fmt.Sprintf("the API server accepted a pod with generation %d", s.Sidecar.Status.Injected.Generation)
	default:
		p.Probe = s.probe()
	}
	for _, u := range Updates(s) {
		if name := owner(u.Pod); name == "" {
			p.InPlace = append(p.InPlace, u.On(u.Pod))
		} else if !slices.Contains(p.Pod2s, name) {
			p.Pod2s = append(p.Pod2s, name)
		}
	}
	p.Status, p.Events = s.status(ready)
	return p
}

// WithFailure returns the status to write when the dry run failed, nil if it is already
// written.
func WithFailure(s State, f plan.Failure) (*v1.SidecarStatus, []plan.Event) {
	return s.status(plan.False(f.Reason, shorten.To(f.Message, shorten.EventMessage)))
}

// WithFailedUpdates returns the status to write when some updates of pods failed, nil if it
// is already written. The status of the plan assumes that all succeed. There are no failures
// if it is too early to report them: then the condition stays. An event reports each new
// failure.
func WithFailedUpdates(s State, status *v1.SidecarStatus, failures []plan.Failure) (*v1.SidecarStatus, []plan.Event) {
	if status == nil {
		status = &s.Sidecar.Status
	}
	status = status.DeepCopy()
	if was := meta.FindStatusCondition(s.Sidecar.Status.Conditions, v1.ConditionUpdated); was != nil {
		meta.SetStatusCondition(&status.Conditions, *was)
	}
	if len(failures) > 0 {
		plan.SetCondition(&status.Conditions, v1.ConditionUpdated, s.Sidecar.Generation, s.Now, plan.False(failures[0].Reason, shorten.To(failures[0].Message, shorten.EventMessage)))
	}
	return plan.Changed(status, s.Sidecar.Status), s.newFailure(status, v1.ConditionUpdated)
}

// accepted says whether a dry run has succeeded with the present additions of a Sidecar.
func accepted(s *v1.Sidecar) bool {
	in := s.Status.Injected
	return in != nil && samePods(in.Spec, s.Spec)
}

// status returns the status, nil if it is already written. An event reports each new
// failure.
func (s State) status(ready metav1.Condition) (*v1.SidecarStatus, []plan.Event) {
	status := s.Sidecar.Status.DeepCopy()
	status.ObservedGeneration = s.Sidecar.Generation
	plan.SetCondition(&status.Conditions, v1.ConditionReady, s.Sidecar.Generation, s.Now, ready)
	if ready.Status == metav1.ConditionTrue && !accepted(s.Sidecar) {
		from := s.Sidecar.Generation
		if in := status.Injected; in != nil && sameButImages(in.Spec, s.Sidecar.Spec) {
			from = cmp.Or(in.InPlaceFrom, in.Generation)
		}
		status.Injected = &v1.SidecarGeneration{Generation: s.Sidecar.Generation, InPlaceFrom: from, Spec: *s.Sidecar.Spec.DeepCopy()}
	}
	status.Matched, status.UpToDate, status.Ready = 0, 0, 0
	for _, pod := range s.Pods {
		if !s.has(pod) {
			continue
		}
		status.Matched++
		if status.Injected != nil && Generations(pod)[s.Sidecar.Name] == status.Injected.Generation {
			status.UpToDate++
		}
		if pod2.Available(pod) {
			status.Ready++
		}
	}
	if meta.FindStatusCondition(status.Conditions, v1.ConditionUpdated) != nil && !s.updatesWait() {
		meta.RemoveStatusCondition(&status.Conditions, v1.ConditionUpdated)
	}
	return plan.Changed(status, s.Sidecar.Status), s.newFailure(status, v1.ConditionReady)
}

// newFailure returns the event about a condition that is False, unless it said the same before.
func (s State) newFailure(status *v1.SidecarStatus, condition string) []plan.Event {
	is := meta.FindStatusCondition(status.Conditions, condition)
	if is == nil || is.Status != metav1.ConditionFalse || plan.Said(s.Sidecar.Status.Conditions, is) {
		return nil
	}
	return []plan.Event{plan.Warning(is.Reason, is.Message)}
}

// probe returns a pod that the Sidecar selects. Its containers satisfy Pod Security `restricted`, so a refusal is about
// the Sidecar. The pod sets nothing for all containers: pods may set it for each, and then a Sidecar inherits nothing.
func (s State) probe() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Sidecar.Namespace, Name: s.Sidecar.Name + "-sidecar-probe",
			Labels: maps.Clone(s.Sidecar.Spec.Selector), Annotations: map[string]string{v1.SidecarProbeAnnotation: s.Sidecar.Name},
		},
	}
	image := "sidecar-probe"
	for _, c := range running(&s.Sidecar.Spec) {
		image = c.Image // the cluster allows it, if it allows the Sidecar
	}
	names := s.Sidecar.Spec.TargetContainers
	if len(names) == 0 {
		names = []string{"sidecar-probe"}
	}
	for _, name := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: image,
			SecurityContext: &corev1.SecurityContext{
				RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		})
	}
	return pod
}

// Accepts returns why the answer to the dry run does not show that pods get the present
// generation, "" if it does.
func Accepts(s State, answer *corev1.Pod) string {
	if Generations(answer)[s.Sidecar.Name] == s.Sidecar.Generation {
		return ""
	}
	if s.Sidecar.Spec.Selector[v1.SidecarsLabel] == "disabled" {
		return fmt.Sprintf("spec.selector has the label %s: disabled, and no pod with it gets a Sidecar: remove it from the selector", v1.SidecarsLabel)
	}
	return fmt.Sprintf("the API server does not add generation %d of the Sidecar to pods: apply artifacts/33-sidecars.yaml (Kubernetes 1.36 or newer), and label the namespace: kubectl label namespace %s %s=enabled",
		s.Sidecar.Generation, s.Sidecar.Namespace, v1.SidecarsLabel)
}
