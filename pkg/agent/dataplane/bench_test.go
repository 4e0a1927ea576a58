package dataplane

import (
	"fmt"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkNothingToDo decides about 10,000 pods of other nodes. The kernel has all of them.
func BenchmarkNothingToDo(b *testing.B) {
	s := state(b, "node n1 10.0.0.1", "node n2 10.0.0.2", "network blue 1001 192.0.0.0/8", "pod a n1 blue=192.0.0.2")
	for i := range 10_000 {
		s.Pods = append(s.Pods, Pod{Namespace: "default", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Node: "n2",
			Attachments: []Attachment{{"blue", netip.AddrFrom4([4]byte{192, 1, byte(i >> 8), byte(i)}), MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}, 8}}})
	}
	settle(b, &s)
	b.ResetTimer()
	for b.Loop() {
		if p, _ := decide(b, s); len(p) > 0 {
			b.Fatal(p)
		}
	}
}

// BenchmarkPodsElsewhere decides about 150,000 pods of Networks that are not on this node:
// there is nothing to do.
func BenchmarkPodsElsewhere(b *testing.B) {
	s := state(b, "node n1 10.0.0.1", "node n2 10.0.0.2", "network blue 1001 192.0.0.0/8", "network green 1002 192.0.0.0/8", "pod a n1 blue=192.0.0.2")
	for i := range 150_000 {
		s.Pods = append(s.Pods, Pod{Namespace: "default", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Node: "n2",
			Attachments: []Attachment{{"green", netip.AddrFrom4([4]byte{192, 1 + byte(i>>16), byte(i >> 8), byte(i)}), MAC{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}, 8}}})
	}
	for b.Loop() {
		if _, report, _ := Want(s); len(report.Problems) > 0 {
			b.Fatal(report.Problems)
		}
	}
}
