package dns

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pod2/pod2/pkg/plan"
)

// BenchmarkDiff measures Diff with nothing to write, after one pod has changed, by number of
// replicas.
func BenchmarkDiff(b *testing.B) {
	for _, size := range []int{10, 1_000, 10_000} {
		var pods []string
		for i := range size {
			pods = append(pods, fmt.Sprintf("web-%d blue=10.0.%d.%d", i, i/250, 1+i%250))
		}
		s := state(b, "networks=blue", pods...)
		slices.SortFunc(s.Pods, plan.ByName)
		for !Diff(s).Empty() {
			apply(&s, Diff(s))
		}
		earlier := slices.Clone(s.Pods)
		earlier[0] = earlier[0].DeepCopy()
		s.Facts = Facts(nil).Of(earlier)
		b.Run(fmt.Sprintf("replicas=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Diff(s)
			}
		})
	}
}
