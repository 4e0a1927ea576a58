//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/pod2/pod2/test/bench/measure"
)

// Ratios are of figures of the same round, not of medians of different rounds.
func TestRatioIsOfOneRound(t *testing.T) {
	r := measure.Results{}
	for _, speeds := range []struct{ under, over float64 }{{10, 9}, {20, 10}, {5, 4}} {
		round := measure.Results{}
		round.Add(speeds.under, underlay, "one stream")
		round.Add(speeds.over, podToPod, "one stream")
		addRound(r, round)
	}
	if got, want := r.Text("%.2f", podToPod, "one stream", "by the underlay's"), "0.80 (0.50-0.90)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A target without a figure is missed.
func TestTargetsAreMissedWithoutFigures(t *testing.T) {
	r := &report{}
	got := measure.Render(page, "targets", r)
	if strings.Count(got, "| not measured | **missed** |") != len(r.Targets()) || strings.Contains(got, "Why") {
		t.Errorf("the table is\n%s", got)
	}
}

// The page has a figure, or a sign that there is none, in each place.
func TestPage(t *testing.T) {
	r := &report{options: options{Sizes: []int{1000}, Networks: []int{1, 3}}}
	if got := measure.Render(page, "", r); strings.Contains(got, "<no value>") || !strings.Contains(got, "| 1000 | not measured |") {
		t.Errorf("the page is\n%s", got)
	}
}

func TestMissedTargetsSayWhy(t *testing.T) {
	r := &report{Results: measure.Results{}}
	r.Add(1000, "publication", "begun")
	for _, target := range r.Targets() {
		if target.Why == "" {
			t.Errorf("%s: no reason", target.Name)
		}
	}
	const want = "| publication to the entry on every node, p99 | at most 100 ms | 1000.0 (1000.0-1000.0) | **missed** |"
	if got := measure.Render(page, "targets", r); !strings.Contains(got, want) || strings.Count(got, "\n- ") != 1 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The cluster on paper, with figures that make the calculation easy.
func TestPaper(t *testing.T) {
	r := &report{options: options{Sizes: []int{10_000}, Networks: []int{1, 11}, standing: 10_000}, Results: measure.Results{}}
	for _, measured := range []struct {
		value float64
		name  []any
	}{
		{10, []any{"entries", 10_000, "read"}}, {20, []any{"entries", 10_000, "compared"}}, {5, []any{"entries", 10_000, "elsewhere"}},
		{2, []any{"networks", 1, "read"}}, {22, []any{"networks", 11, "read"}}, {0, []any{"networks", 1, "decided"}}, {10, []any{"networks", 11, "decided"}},
		{30 << 20, []any{"standing", "few", "peak"}}, {50 << 20, []any{"standing", "all", "peak"}},
		{1e3, []any{"standing", "few", "received"}}, {1e3 + 2e7, []any{"standing", "all", "received"}},
		{1, []any{"standing", "few", "CPU"}}, {2, []any{"standing", "all", "CPU"}},
		{8, []any{"life", "events"}}, {2, []any{"life", "events that count"}}, {16_000, []any{"life", "received"}},
		{100, []any{"fanout", "an event, µs"}},
	} {
		r.Add(measured.value, measured.name...)
	}
	var got []string
	for _, line := range r.Paper() {
		got = append(got, line.Result)
	}
	const want = "30; 30, 30000; 90000, 330 MiB, 300 MB, 16.0 s, 13.9; 3.5, 28 KB, 237 ms, 237 to 711 ms, 50 % of a core, " +
		"20000, 69444, 139 MB/s, 6.9 cores, 83333, 150.0 GB, 3472, 17 MB/s"
	if got := strings.Join(got, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
