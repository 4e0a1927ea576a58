package pod2

import (
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/test/chance"
)

// A decision that looks at all replicas is the same as one that skips the steady ones.
func TestSteadyReplicasDecideNothing(t *testing.T) {
	var steady atomic.Int64
	chance.ForSeeds(t, 5000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice)
		if s.Pod2.DeletionTimestamp != nil {
			return
		}
		s.Sidecars = map[types.UID]SidecarUpdate{}
		for _, pod := range s.Pods {
			if chance.One(dice, 8) {
				s.Sidecars[pod.UID] = SidecarUpdate{Name: "mesh", Images: map[string]string{pod.Spec.Containers[0].Name: "mesh:2"}}
			}
		}
		steady.Add(int64(look(s).steadyCount()))
		want, got := lookFor(s, func(*view, replica) bool { return false }).plan(s), Diff(s)
		if got.String() != want.String() || !reflect.DeepEqual(got.Status, want.Status) {
			t.Errorf("state\n%sthe plan is\n%s\nwith a look at all replicas\n%s", describe(s), got, want)
		}
	})
	if n := steady.Load(); n < 100 {
		t.Errorf("only %d replicas are steady: these states prove nothing", n)
	}
}
