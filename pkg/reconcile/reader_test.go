package reconcile

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/test/chance"
)

// Some names are prefixes of others, or have the same eight bytes after the common prefix.
func TestSortByName(t *testing.T) {
	chance.ForSeeds(t, 300, func(t *testing.T, dice *rand.Rand) {
		var pods []*corev1.Pod
		for range dice.IntN(30) {
			name := "web" + strings.Repeat("-long", dice.IntN(4)) + "-" + []string{"", "0", "1", "10", "a", "é", "ÿ"}[dice.IntN(7)]
			pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		got, want := slices.Clone(pods), slices.Clone(pods)
		sortByName(got)
		slices.SortFunc(want, plan.ByName)
		for _, pod := range pods {
			if !slices.Contains(got, pod) {
				t.Errorf("pod %s is lost", pod.Name)
			}
		}
		if !slices.EqualFunc(got, want, func(a, b *corev1.Pod) bool { return a.Name == b.Name }) {
			for _, pod := range got {
				t.Log(pod.Name)
			}
			t.Error("these names are not in order")
		}
	})
}
