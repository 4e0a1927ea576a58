package pod2

import (
	"fmt"
	"testing"
)

// BenchmarkDiff of 10,000 replicas: at rest, on an update, and from nothing.
func BenchmarkDiff(b *testing.B) {
	for _, bm := range []struct{ name, pod string }{{"rest", "web-%d"}, {"update", "web-%d old"}, {"create", ""}} {
		const spec = "replicas=10000 networks=blue,green"
		var pods []string
		for i := range 10_000 {
			if bm.pod != "" {
				pods = append(pods, fmt.Sprintf(bm.pod, i))
			}
		}
		s := state(b, spec, pods...)
		b.Run(bm.name, func(b *testing.B) {
			for b.Loop() {
				Diff(s)
			}
		})
	}
}
