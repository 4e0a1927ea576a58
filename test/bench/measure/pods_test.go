package measure

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// A pod is created, becomes Ready, and is replaced by one that does not.
func TestPodsAreCounted(t *testing.T) {
	pods := newPods()
	begin := time.Unix(0, 0)
	for i, event := range []watch.Event{
		{Type: watch.Added, Object: pod("a", false)},
		{Type: watch.Modified, Object: pod("a", true)},
		{Type: watch.Deleted, Object: pod("a", true)},
		{Type: watch.Added, Object: pod("b", false)},
	} {
		pods.note(event, begin.Add(time.Duration(i)))
	}
	want := []Point{{begin, 1, 0, 1}, {begin.Add(1), 1, 1, 1}, {begin.Add(2), 0, 0, 1}, {begin.Add(3), 1, 0, 2}}
	for i, p := range pods.Points {
		if p != want[i] {
			t.Errorf("point %d: %v, want %v", i, p, want[i])
		}
	}
	if got := pods.First(begin.Add(1), func(p Point) bool { return p.Exist == 1 && p.Ready == 0 }); got != 2 {
		t.Errorf("first reached after %d, want 2: earlier points do not count", got)
	}
}

func pod(uid types.UID, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}
