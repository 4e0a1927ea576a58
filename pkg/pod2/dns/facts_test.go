package dns

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/test/chance"
)

// Some pods are unchanged since the earlier look, some have changed, and some are new or gone.
func TestFactsDecideNothing(t *testing.T) {
	chance.ForSeeds(t, 3000, func(t *testing.T, dice *rand.Rand) {
		s, from := arbitrary(t, dice)
		earlier := []*corev1.Pod{newPod(t, s.Pod2, strings.Fields("web-9 blue=10.0.0.9"))}
		for _, pod := range s.Pods {
			switch dice.IntN(4) {
			case 0:
			case 1:
				other := pod.DeepCopy()
				other.Annotations[v1.AddressesAnnotation] = `{"red":{"address":"10.2.0.2/24"}}`
				earlier = append(earlier, other)
			default:
				earlier = append(earlier, pod)
			}
		}
		slices.SortStableFunc(earlier, plan.ByName)
		want := Diff(s).String()
		s.Facts = Facts(nil).Of(earlier)
		if got := Diff(s).String(); got != want {
			t.Errorf("state %s\nwith facts of an earlier look, the plan is\n%s\nwithout\n%s", from, got, want)
		}
	})
}
