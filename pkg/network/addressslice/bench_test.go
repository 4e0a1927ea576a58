package addressslice

import (
	"testing"
	"time"
)

// BenchmarkDiff decides about 10,000 addresses, one of which is new.
func BenchmarkDiff(b *testing.B) {
	s := after(blue(10_000), func(s *State) { s.Locations["10.1.0.1"], s.RemovalsHeld = "192.0.2.1", time.Second })
	b.ReportAllocs()
	for b.Loop() {
		if p := Diff(s); len(p.Update)+len(p.Create) != 1 {
			b.Fatal(p)
		}
	}
}
