//go:build integration

package integration

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// states are the states of pod p since it has a node, in order, without repetitions.
type states struct {
	lines      []string
	read       int
	containers map[string][]string // the containerIDs of each name, in order of appearance
}

// followStates also fails the test if the status of p contradicts itself.
func followStates(t *testing.T, namespace string) (*follower, *states) {
	t.Helper()
	s := &states{containers: map[string][]string{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the states of p:\n%s", strings.Join(s.lines, "\n"))
		}
	})
	return follow(t, namespace, func(pods map[string]*corev1.Pod) string {
		pod := pods["p"]
		if pod == nil || pod.Spec.NodeName == "" {
			return ""
		}
		line, wrong := s.describe(pod)
		if len(s.lines) == 0 || s.lines[len(s.lines)-1] != line {
			s.lines = append(s.lines, line)
		}
		return wrong
	}), s
}

// next waits for n more states and returns them.
func (s *states) next(t *testing.T, f *follower, n int) (lines string) {
	t.Helper()
	f.until(t, fmt.Sprintf("%d more states", n), func(map[string]*corev1.Pod) bool {
		if len(s.lines) < s.read+n {
			return false
		}
		lines = strings.Join(s.lines[s.read:s.read+n], "\n")
		s.read += n
		return true
	})
	return lines
}

// describe returns one line in the form of step, and a contradiction in the status, if
// there is one.
func (s *states) describe(pod *corev1.Pod) (line, wrong string) {
	status := &pod.Status
	line = fmt.Sprintf("%d/%d %s", pod.Generation, status.ObservedGeneration, status.Phase)
	conditions := map[corev1.PodConditionType]corev1.PodCondition{}
	for _, c := range status.Conditions {
		conditions[c.Type] = c
		if c.ObservedGeneration != status.ObservedGeneration && c.Type != corev1.PodResizePending && status.ObservedGeneration > 0 {
			wrong = fmt.Sprintf("the condition %s has observedGeneration %d", c.Type, c.ObservedGeneration)
		}
	}
	ready := conditions[corev1.PodReady]
	if conditions[corev1.PodInitialized].Status == corev1.ConditionFalse {
		line += " Uninitialized"
	}
	if ready.Status == corev1.ConditionTrue {
		line += " Ready"
	}
	if c, ok := conditions[corev1.PodResizePending]; ok {
		line += " PodResizePending/" + c.Reason
	}
	if ready.Status != conditions[corev1.ContainersReady].Status {
		wrong = "Ready and ContainersReady differ"
	}

	allReady := len(status.ContainerStatuses) > 0
	var parts []string
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		state := "running"
		switch {
		case c.State.Waiting != nil:
			state = "waiting " + c.State.Waiting.Reason
		case c.State.Terminated != nil:
			state = "terminated " + c.State.Terminated.Reason
		case ready.Status == corev1.ConditionTrue && ready.LastTransitionTime.Before(&c.State.Running.StartedAt):
			wrong = c.Name + " was started after the pod became ready"
		}
		ids := s.containers[c.Name]
		if c.ContainerID != "" && (len(ids) == 0 || ids[len(ids)-1] != c.ContainerID) {
			ids = append(ids, c.ContainerID)
			s.containers[c.Name] = ids
		}
		if int(c.RestartCount) != max(0, len(ids)-1) {
			wrong = fmt.Sprintf("%s has had %d containers and has restartCount %d", c.Name, len(ids), c.RestartCount)
		}
		part := fmt.Sprintf("%s=%s#%d %s", c.Name, c.Image, len(ids), state)
		if c.Resources != nil {
			if !reflect.DeepEqual(c.AllocatedResources, c.Resources.Requests) {
				wrong = fmt.Sprintf("%s requests %v and is allocated %v", c.Name, c.Resources.Requests, c.AllocatedResources)
			}
			if len(c.Resources.Requests) > 0 {
				part += fmt.Sprintf(" %s %s", c.Resources.Requests.Cpu(), c.Resources.Requests.Memory())
			}
		} else if len(ids) > 0 {
			wrong = c.Name + " has no resources: it could not be resized"
		}
		if c.Started == nil || *c.Started != (c.State.Running != nil) {
			wrong = c.Name + " has a started field that contradicts its state"
		}
		allReady = allReady && c.Ready
		parts = append(parts, part)
	}
	if allReady != (ready.Status == corev1.ConditionTrue) {
		wrong = "the readiness of the containers and of the pod differ"
	}
	if wrong != "" {
		wrong += ": " + line
	}
	return strings.TrimSpace(line + " " + strings.Join(parts, ", ")), wrong
}
