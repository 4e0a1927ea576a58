//go:build linux

package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Figures are ratios of one round each, not of medians of different rounds.
func TestRatioIsOfOneRound(t *testing.T) {
	r := &results{}
	for _, round := range []struct{ under, over float64 }{{10, 9}, {20, 10}, {5, 4}} {
		r.traffic = append(r.traffic, map[string]traffic{underlay: {oneStream: round.under}, podToPod: {oneStream: round.over}})
	}
	if got, want := r.ratio(podToPod, oneStream).text("%.2f"), "0.80 (0.50-0.90)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Nothing measured is no target reached.
func TestTargetsAreMissedWithoutFigures(t *testing.T) {
	r := &results{}
	for _, target := range r.targets() {
		if target.reached() {
			t.Errorf("%s: %g is as wanted", target.what, target.measured.median)
		}
	}
	if got := r.targetTable(); strings.Count(got, "| not measured | **missed** |") != len(r.targets()) || strings.Contains(got, "Why") {
		t.Errorf("the table is\n%s", got)
	}
}

func TestMissedTargetsSayWhy(t *testing.T) {
	r := &results{few: publication{begun: []time.Duration{time.Second}}}
	for _, target := range r.targets() {
		if target.why == "" {
			t.Errorf("%s: no reason", target.what)
		}
	}
	const want = "| publication to the entry on every node, p99 | at most 100 ms | 1000.0 (1000.0-1000.0) | **missed** |"
	if got := r.targetTable(); !strings.Contains(got, want) || strings.Count(got, "\n- ") != 1 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[99-i] = time.Duration(i + 1)
	}
	for _, test := range []struct {
		list []time.Duration
		p    int
		want time.Duration
	}{{nil, 50, -1}, {hundred[:1], 99, 100}, {hundred, 0, 1}, {hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}} {
		if got := at(test.list, test.p); got != test.want {
			t.Errorf("p%d of %d: %d, want %d", test.p, len(test.list), got, test.want)
		}
	}
}

// The cluster on paper, of figures that are easy to calculate with.
func TestScale(t *testing.T) {
	p := programming{read: 10 * time.Millisecond, compare: 20 * time.Millisecond, elsewhere: 5 * time.Millisecond}
	r := &results{options: options{sizes: []int{10_000}, networks: []int{1, 11}, published: 0}, entries: map[int][]programming{10_000: {p}},
		joinings: map[int][]joining{1: {{read: 2 * time.Millisecond}}, 11: {{read: 22 * time.Millisecond, compare: 10 * time.Millisecond}}},
		standing: standing{pods: 10_000, few: start{peak: 30 << 20, bytes: 1e3, cpu: time.Second}, all: start{peak: 50 << 20, bytes: 1e3 + 2e7, cpu: 2 * time.Second}},
		fanout:   fanout{watchers: 100, changes: 100, without: time.Second, with: 2 * time.Second},
		life:     life{pods: 10, events: 8, counts: 2, wire: 16_000}}
	s := r.scale()
	for _, got := range []struct {
		what       string
		is, wanted float64
	}{
		{"remote pods", s.remote, 30_000},
		{"lives a second", s.lives, 150_000. / 86_400},
		{"memory, MiB", s.memory / (1 << 20), 30 + 15*20},
		{"list, MB", s.list / 1e6, 0.001 + 15*20},
		{"CPU of a start", s.startCPU, 16},
		{"read, ms", s.read, 30},
		{"decide, ms", s.decide, 3*20 + 12*5},
		{"routers, ms", s.routers, 29 * 3},
		{"a sync, ms", s.sync, 30 + 120 + 29*3},
		{"events told", s.told, 5_000 * 8 * 150_000. / 86_400},
		{"cores of the API server", s.serverCPU, 5_000 * 8 * 150_000. / 86_400 / 10_000},
	} {
		if math.Abs(got.is-got.wanted) > 1e-6*got.wanted {
			t.Errorf("%s: %g, want %g", got.what, got.is, got.wanted)
		}
	}
}

// Samples of a histogram are none of a counter whose name begins likewise.
func TestSumOfAMetric(t *testing.T) {
	const text = "# HELP a help\na_total{x=\"1\"} 2\na_total{x=\"2\"} 3\na_total_count 7\na 1\n"
	for name, want := range map[string]float64{"a_total": 5, "a": 1, "a_total_count": 7} {
		if got, err := sum(text, name); err != nil || got != want {
			t.Errorf("%s: %g, %v, want %g", name, got, err, want)
		}
	}
	if _, err := sum(text, "b"); err == nil {
		t.Error("b was found")
	}
}
