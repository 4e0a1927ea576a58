package pod2

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pod2/pod2/pkg/plan"
)

// BenchmarkDiff measures Diff at rest, on an update, after an update in place and on a
// creation, by number of replicas.
func BenchmarkDiff(b *testing.B) {
	for _, bm := range []struct{ name, pod string }{{"rest", "web-%d"}, {"update", "web-%d old"}, {"updated", "web-%d updating=id-1"}, {"create", ""}} {
		for _, size := range []int{10, 1_000, 10_000} {
			var pods []string
			for i := range size {
				if bm.pod != "" {
					pods = append(pods, fmt.Sprintf(bm.pod, i))
				}
			}
			s := state(b, fmt.Sprintf("replicas=%d networks=blue,green", size), pods...)
			slices.SortFunc(s.Pods, plan.ByName)
			if len(s.Pods) > 0 { // one pod has changed since the last sync
				earlier := slices.Clone(s.Pods)
				earlier[0] = earlier[0].DeepCopy()
				s.Facts = Facts(nil).Of(earlier)
			}
			b.Run(fmt.Sprintf("%s/replicas=%d", bm.name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Diff(s)
				}
			})
		}
	}
}
