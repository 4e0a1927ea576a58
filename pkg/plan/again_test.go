package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/test/chance"
)

type podName struct{ pod *corev1.Pod }

func (p podName) Of() *corev1.Pod { return p.pod }

// The lists are in any order here, and may have a pod twice.
func TestAgainIsAboutThePodsInTheirOrder(t *testing.T) {
	chance.ForSeeds(t, 5000, func(t *testing.T, dice *rand.Rand) {
		var known []*corev1.Pod
		for i := range 4 {
			known = append(known, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i/2)}})
		}
		some := func() (pods []*corev1.Pod) {
			for range dice.IntN(4) {
				pods = append(pods, known[dice.IntN(len(known))])
			}
			return pods
		}
		read := func(pod *corev1.Pod) podName { return podName{pod} }
		pods := some()
		again := Again(Again(nil, some(), read), pods, read)
		if len(again) != len(pods) {
			t.Fatalf("%d results for %d pods", len(again), len(pods))
		}
		for i, pod := range pods {
			if again[i].pod != pod {
				t.Errorf("result %d is about another pod", i)
			}
		}
	})
}
