//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// updated is a Pod2 whose pods nobody takes but one controller, to update them.
type updated struct {
	name     string
	replicas int // of which one may be unavailable
	minReady time.Duration
}

// taken is S5: a pod that is available is taken while enough others are, and one that is
// Ready and too young to be available while one more is.
func (u updated) taken(was, is map[string]*corev1.Pod, at time.Time) string {
	for name, pod := range was {
		next := is[name]
		goes := next == nil || next.UID != pod.UID || next.DeletionTimestamp != nil
		if !u.has(pod) || !goes || readyFor(pod, at) < 0 || pod.DeletionTimestamp != nil {
			continue
		}
		least := u.replicas - 1
		if readyFor(pod, at) < u.minReady {
			least++
		}
		others := 0
		for _, other := range is {
			if u.has(other) && other.UID != pod.UID && other.DeletionTimestamp == nil && readyFor(other, at) >= u.minReady {
				others++
			}
		}
		if others < least {
			return fmt.Sprintf("S5: %s, Ready for %s, is taken while %d others are available, and %d have to be", name, readyFor(pod, at), others, least)
		}
	}
	return ""
}

func (u updated) has(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOf(pod)
	return ref != nil && ref.Kind == "Pod2" && ref.Name == u.name
}

// readyFor is negative for a pod that is not Ready.
func readyFor(pod *corev1.Pod, at time.Time) time.Duration {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return max(0, at.Sub(c.LastTransitionTime.Time))
		}
	}
	return -1
}

func TestMonitorOfUpdatesTellsBrokenPromises(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	u := updated{"web", 3, 10 * time.Second}
	// pods are "ready for so many seconds", "-" for one that is not Ready, "x" for one that terminates.
	pods := func(text string) map[string]*corev1.Pod {
		all := map[string]*corev1.Pod{}
		for i, word := range strings.Fields(text) {
			name := fmt.Sprintf("web-%d", i)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{Kind: "Pod2", Name: "web", Controller: ptr.To(true)}}}}
			var seconds int
			switch n, _ := fmt.Sscan(word, &seconds); {
			case n == 1:
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(begin.Add(-time.Duration(seconds) * time.Second))}}
			case word == "x":
				pod.DeletionTimestamp = ptr.To(metav1.NewTime(begin))
			}
			all[name] = pod
		}
		return all
	}
	for _, row := range []struct{ was, is, want string }{
		{"60 60 60", "60 60 x", ""},
		{"60 60 -", "60 60 x", ""},
		{"60 60 -", "60 x -", "S5: web-1, Ready for 1m0s, is taken while 1 others are available, and 2 have to be"},
		{"60 60 5", "60 60 x", "S5: web-2, Ready for 5s, is taken while 2 others are available, and 3 have to be"},
		{"5 60 60", "5 60 x", "S5: web-2, Ready for 1m0s, is taken while 1 others are available, and 2 have to be"},
	} {
		if got := u.taken(pods(row.was), pods(row.is), begin); got != row.want {
			t.Errorf("%s, then %s: got %q, want %q", row.was, row.is, got, row.want)
		}
	}
}
