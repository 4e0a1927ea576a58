package ordinals

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	for pod, want := range map[string]string{
		"web-0": "0 true", "web-10": "10 true", "web-2147483647": "2147483647 true",
		"web": "0 false", "web-": "0 false", "web-01": "0 false", "web-+1": "0 false", "web--1": "0 false",
		"web-2147483648": "0 false", "web-x": "0 false", "db-1": "0 false", "web2-1": "0 false",
	} {
		ordinal, ok := Parse("web", pod)
		if got := fmt.Sprint(ordinal, ok); got != want {
			t.Errorf("%s: got %s, want %s", pod, got, want)
		}
	}
}

// TestRange compares Range with a plain list of the ordinals.
func TestRange(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		start, count := dice.Int32N(5), dice.Int32N(8)
		var reserved []int32
		for range dice.IntN(6) {
			reserved = append(reserved, dice.Int32N(15))
		}
		var all []int32
		for ordinal := start; len(all) < 20; ordinal++ {
			if !slices.Contains(reserved, ordinal) {
				all = append(all, ordinal)
			}
		}
		r := New(start, count, reserved)
		for ordinal := range int32(20) {
			want := slices.Index(all, ordinal)
			place, ok := r.Place(ordinal)
			if ok != (want >= 0) || ok && (place != want || r.At(place) != ordinal) || r.Has(ordinal) != (want >= 0 && want < int(count)) {
				t.Fatalf("start %d count %d reserved %v: ordinal %d is at %d %t, has %t; want %d", start, count, reserved, ordinal, place, ok, r.Has(ordinal), want)
			}
		}
	}
}
