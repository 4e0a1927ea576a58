package model

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

const managedLabel = v1.ManagedLabel

// surroundings are the kubelets, the garbage collector and the clock. Their inevitable
// actions are not faults. The death of a pod and the passing of time are.
func (m *machine) surroundings(s *state, emit func(action, *state)) {
	m.garbage(s, emit)
	for _, o := range s.server[Pods] {
		pod := o.value.(*corev1.Pod)
		step := func(what string, fault bool, do func(*World)) {
			next := s.clone()
			do(&World{m, next})
			emit(action{who: "kubelet", what: func() string { return what }, fault: fault}, next)
		}
		runs := len(pod.Spec.SchedulingGates) == 0 && !attachment.Over(pod)
		switch {
		case pod.DeletionTimestamp != nil:
			step("pod "+o.name+" is gone", false, func(w *World) { w.vanish(o.name) })
		case m.config.Ready && runs && !podReady(pod):
			step("pod "+o.name+" is ready", false, func(w *World) {
				next := clone[*corev1.Pod](o)
				next.Status.Phase = corev1.PodRunning
				next.Status.Conditions = append(next.Status.Conditions,
					corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(m.now(w.s))})
				w.Put(Pods, next)
			})
		}
		if s.left[deathsLeft] > 0 && runs {
			step("pod "+o.name+" fails", true, func(w *World) {
				w.s.left[deathsLeft]--
				next := clone[*corev1.Pod](o)
				next.Status.Phase = corev1.PodFailed
				next.Status.Conditions = slices.DeleteFunc(next.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
				w.Put(Pods, next)
			})
			if pod.DeletionTimestamp == nil {
				step("the node of pod "+o.name+" is lost, and the pod is terminating", true, func(w *World) {
					w.s.left[deathsLeft]--
					next := Pods.resource().Deleted(pod, metav1.DeleteOptions{}, metav1.NewTime(m.now(w.s))).(*corev1.Pod)
					next.Status.Conditions = slices.DeleteFunc(next.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
					w.Put(Pods, next)
				})
			}
		}
	}
	if s.left[ticksLeft] > 0 {
		next := s.clone()
		next.left[ticksLeft]--
		step := max(m.config.Step, 1)
		next.ticks += step
		emit(action{who: "clock", what: func() string { return (time.Duration(step) * m.config.Tick).String() + " pass" }, fault: true}, next)
	}
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// garbage deletes objects whose controller is gone.
func (m *machine) garbage(s *state, emit func(action, *state)) {
	for _, k := range []Kind{Blocks, Pods, Revisions, Histories} {
		for _, o := range s.server[k] {
			ref := metav1.GetControllerOfNoCopy(o.value)
			if ref == nil || o.value.GetDeletionTimestamp() != nil {
				continue
			}
			owners := Pod2s
			if ref.Kind == "Network" {
				owners = Networks
			} else if ref.Kind != "Pod2" {
				continue
			}
			if _, owner := s.find(owners, ref.Name); owner != nil && owner.value.GetUID() == ref.UID {
				continue
			}
			next := s.clone()
			m.deleted(next, o)
			emit(action{who: "garbage", what: func() string {
				return "collector deletes " + k.String() + " " + o.name + ", whose " + ref.Kind + " is gone"
			}}, next)
		}
	}
}
