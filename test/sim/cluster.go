package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// pace is what each part of the cluster takes to act on what it sees.
const pace = 500 * time.Millisecond

// RunCluster is scheduler, kubelet, garbage collector, storage, and the controllers
// of CronJobs, Jobs and StatefulSets, until stop is closed.
func (s *Server) RunCluster(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-s.toCluster:
			time.Sleep(pace)
		case <-timer.C:
		}
		if wait := s.clusterStep(); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// clusterStep has every part act once, and returns when one has to again although
// nothing happens; 0: never.
func (s *Server) clusterStep() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collectGarbage()
	wait := time.Duration(0)
	for _, pod := range List[*corev1.Pod](s, "pods") {
		wait = max(wait, s.stepPod(pod))
	}
	s.stepClaims()
	s.stepStatefulSets()
	s.stepJobs()
	s.endRuns()
	if due := s.stepCronJobs(); wait == 0 || due > 0 && due < wait {
		wait = due
	}
	return wait
}

// edit stores what how makes of an object, as a part of the cluster.
func edit[T Object](s *Server, by string, obj T, how func(T)) {
	r := resourceNamed(resourceOf(obj))
	next := obj.DeepCopyObject().(T)
	how(next)
	s.store(by, r, obj, next)
}

func resourceOf(obj Object) string {
	for _, r := range resources {
		if r.kind == obj.GetObjectKind().GroupVersionKind().Kind {
			return r.Resource
		}
	}
	panic(fmt.Sprintf("sim: no resource of %T", obj))
}

// stepPod is one step of scheduler and kubelet:
//
//	deleted, on a node             goes
//	gated, or over                 nothing
//	not on a node                  gets one, once its claims are bound
//	pending                        runs: its containers are ready, unless an image is bad
//	runs, an image changed         its container is another, ready
//	runs, other resources          has them
//	runs, is of a Job              has succeeded, 20 s later if its image is slow
//
// It returns when it has to be looked at again although nothing happens; 0: never.
func (s *Server) stepPod(pod *corev1.Pod) time.Duration {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil:
		if grace(pod) > 0 {
			edit(s, "kubelet", pod, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })
		}
	case over || len(pod.Spec.SchedulingGates) > 0:
	case pod.Spec.NodeName == "" && !s.hasClaims(pod):
	case pod.Spec.NodeName == "":
		edit(s, "scheduler", pod, func(p *corev1.Pod) {
			p.Spec.NodeName = "node-0"
			setCondition(p, corev1.PodScheduled, "")
		})
	default:
		next := pod.DeepCopy()
		s.runContainers(next)
		if ref := metav1.GetControllerOf(pod); ref != nil && ref.Kind == "Job" && pod.Status.Phase == corev1.PodRunning {
			started := pod.Status.ContainerStatuses[0].State.Running.StartedAt
			if left := 20*time.Second - time.Since(started.Time); left > 0 && pod.Spec.Containers[0].Image == "slow" {
				return left
			}
			next.Status.Phase = corev1.PodSucceeded
		}
		s.store("kubelet", resourceNamed("pods"), pod, next)
	}
	return 0
}

func (s *Server) runContainers(pod *corev1.Pod) {
	bad := ""
	for _, c := range pod.Spec.Containers {
		i := slices.IndexFunc(pod.Status.ContainerStatuses, func(cs corev1.ContainerStatus) bool { return cs.Name == c.Name })
		if i < 0 {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name})
			i = len(pod.Status.ContainerStatuses) - 1
		}
		status := &pod.Status.ContainerStatuses[i]
		status.Resources = c.Resources.DeepCopy()
		switch {
		case strings.HasPrefix(c.Image, "bad"):
			bad = c.Name
			status.Ready, status.Started = false, ptr.To(false)
			status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}
		case status.Image != c.Image || status.ContainerID == "":
			status.ContainerID = fmt.Sprintf("sim://%s/%s/%s", pod.UID, c.Name, c.Image)
			status.Image, status.Ready, status.Started = c.Image, true, ptr.To(true)
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now()}}
		}
	}
	if bad == "" || pod.Status.Phase == corev1.PodRunning {
		pod.Status.Phase = corev1.PodRunning
	}
	reason := ""
	if bad != "" {
		reason = "ContainersNotReady"
	}
	setCondition(pod, corev1.PodReady, reason)
	pod.Status.ObservedGeneration = pod.Generation
}

// setCondition makes a condition true, or false for a reason.
func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, reason string) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now()}
	if reason != "" {
		c.Status, c.Reason = corev1.ConditionFalse, reason
	}
	for i, old := range pod.Status.Conditions {
		if old.Type == kind {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			pod.Status.Conditions[i] = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}
