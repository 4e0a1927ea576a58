//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/pod2/pod2/test/bench/measure"
)

// Ratios are of figures of the same round, not of medians of different rounds.
func TestRatioIsOfOneRound(t *testing.T) {
	r := &report{Results: measure.Results{}}
	for _, speeds := range []struct{ wire, pods float64 }{{10, 9}, {20, 10}, {5, 4}} {
		round, sum := measure.Results{}, measure.Results{}
		round.Add(speeds.wire, theWire, one)
		round.Add(speeds.pods, podToPod, one)
		addRound(sum, nic, round)
		r.AddAll(sum, "traffic")
	}
	const want = "| nic | pod to pod, two nodes | the wire | one stream | 10.0 Gbit/s | 9.0 Gbit/s | 0.80 (0.50-0.90) | at least 0.80 | reached |"
	if got := measure.Render(page, "packets", r); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A path may be compared with two others.
func TestRatiosOfOnePath(t *testing.T) {
	r, round, sum := &report{Results: measure.Results{}}, measure.Results{}, measure.Results{}
	for path, speed := range map[string]float64{theWire: 10, cutWire: 8, podToPod: 6} {
		round.Add(speed, path, one)
	}
	addRound(sum, cut, round)
	r.AddAll(sum, "traffic")
	got := measure.Render(page, "packets", r)
	for _, want := range []string{"| the wire | one stream | 10.0 Gbit/s | 6.0 Gbit/s | 0.60 (0.60-0.60) |", "| the wire, cut by its sender | one stream | 8.0 Gbit/s | 6.0 Gbit/s | 0.75 (0.75-0.75) |"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// A target without a figure is missed.
func TestTargetsAreMissedWithoutFigures(t *testing.T) {
	r := &report{}
	bounds := len(r.Targets())
	for _, c := range comparisons {
		if c.Bound > 0 {
			bounds++
		}
	}
	got := measure.Render(page, "", r)
	if strings.Count(got, "| **missed** |") != bounds || strings.Contains(got, "| reached |") || strings.Contains(got, "<no value>") {
		t.Errorf("the page is\n%s", got)
	}
}
