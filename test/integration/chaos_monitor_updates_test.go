//go:build integration

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/spec"
)

// updated is a Pod2 whose pods are deleted by one controller only, to update them.
type updated struct {
	name     string
	replicas int // one of them may be unavailable
	minReady time.Duration
}

// taken checks S5 between two views of the pods.
func (u updated) taken(was, is map[string]*corev1.Pod, at time.Time) string {
	p := &v1.Pod2{ObjectMeta: metav1.ObjectMeta{Name: u.name}, Spec: v1.Pod2Spec{Replicas: ptr.To(int32(u.replicas)), MinReadySeconds: int32(u.minReady / time.Second)}}
	for name, pod := range was {
		ref, next := metav1.GetControllerOf(pod), is[name]
		goes := next == nil || next.UID != pod.UID || next.DeletionTimestamp != nil
		if ref == nil || ref.Name != u.name || !goes {
			continue
		}
		if why := spec.TooFew(pod, slices.Collect(maps.Values(is)), []*v1.Pod2{p}, at); why != "" {
			return why
		}
	}
	return ""
}

func TestMonitorOfUpdatesTellsBrokenPromises(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	u := updated{"web", 3, 10 * time.Second}
	// Each word is a pod: the seconds since it is Ready, "-" if it is not Ready, "x" if it terminates.
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
		{"60 60 -", "60 x -", "S5: web-1 is taken away: 1 other pods of web are available, and 2 must be"},
		{"60 60 5", "60 60 x", "S5: web-2, which is Ready, is updated: 2 other pods of web are available, and 3 must be"},
		{"5 60 60", "5 60 x", "S5: web-2 is taken away: 1 other pods of web are available, and 2 must be"},
	} {
		if got := u.taken(pods(row.was), pods(row.is), begin); got != row.want {
			t.Errorf("%s, then %s: got %q, want %q", row.was, row.is, got, row.want)
		}
	}
}
