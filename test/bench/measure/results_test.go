package measure

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	for _, test := range []struct {
		values      []float64
		text, short string
	}{
		{nil, "not measured", "-"},
		{[]float64{3}, "3.0 (3.0-3.0)", "3.0"},
		{[]float64{3, 1, 2}, "2.0 (1.0-3.0)", "2.0 (1.0-3.0)"},
		{[]float64{4, 1, 2, 3}, "2.5 (1.0-4.0)", "2.5 (1.0-4.0)"},
	} {
		r := Results{"of a path": test.values}
		if text, short := r.Text("%.1f", "of", "a path"), r.Short("%.1f", "of", "a path"); text != test.text || short != test.short {
			t.Errorf("%v: %s and %s, want %s and %s", test.values, text, short, test.text, test.short)
		}
	}
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	r := Results{}
	for i := range 100 {
		r.Add(float64(100-i), "hundred")
	}
	for i := range 10 {
		r.Add(float64(i+1), "ten")
	}
	r.Add(7, "one")
	for _, test := range []struct {
		name string
		p    int
		want float64
	}{{"one", 99, 7}, {"ten", 99, 10}, {"ten", 50, 5}, {"hundred", 0, 1}, {"hundred", 50, 50}, {"hundred", 99, 99}, {"hundred", 100, 100}} {
		if got := r.Percentile(test.p, test.name); got != test.want {
			t.Errorf("p%d of %s: %g, want %g", test.p, test.name, got, test.want)
		}
	}
	if got := r.Percentile(50, "none"); got == got {
		t.Errorf("p50 of nothing is %g", got)
	}
}

// AddAll puts a part's results under the part's name and keeps the others.
func TestAddAll(t *testing.T) {
	all, lap := Results{}, Results{}
	all.Add(1, "Pod2", 10, "ready")
	lap.Add(3, "ready")
	all.AddAll(lap, "Pod2", 10)
	if got, want := all.String(), "Pod2 10 ready 2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A failure names its line, and deferred functions run.
func TestFailure(t *testing.T) {
	cause, deferred := errors.New("lost"), false
	err := Try(func() {
		defer func() { deferred = true }()
		Parallel(1, func(int) { Check(cause) })
		t.Error("it did not end")
	})
	if !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "results_test.go:") || !deferred {
		t.Errorf("%v, deferred %t", err, deferred)
	}
}

// A change wakes a waiting function, and it fails if the watch ends.
func TestWatched(t *testing.T) {
	var w Watched
	seen := 0
	go func() {
		w.Do(func() { seen++ })
		w.Do(func() { seen++ })
	}()
	w.Wait(t.Context(), "two were seen", func() bool { return seen == 2 })
	go w.Break(errors.New("the watch ended"))
	err := Try(func() { w.Wait(t.Context(), "three were seen", func() bool { return seen == 3 }) })
	if err == nil || !strings.Contains(err.Error(), "the watch ended") {
		t.Errorf("waited, and got %v", err)
	}
}

func TestTargets(t *testing.T) {
	for _, test := range []struct {
		target Target
		want   string
	}{
		{Target{Measured: FigureOf(nil), Bound: 1}, "**missed**"},
		{Target{Measured: FigureOf(nil), Bound: 1, AtLeast: true}, "**missed**"},
		{Target{Measured: FigureOf([]float64{1}), Bound: 1}, "reached"},
		{Target{Measured: FigureOf([]float64{2}), Bound: 1}, "**missed**"},
		{Target{Measured: FigureOf([]float64{2}), Bound: 1, AtLeast: true}, "reached"},
	} {
		if got := test.target.Verdict(); got != test.want {
			t.Errorf("%+v: %s, want %s", test.target, got, test.want)
		}
	}
}

// Samples of a histogram are not part of a counter whose name is a prefix.
func TestMetrics(t *testing.T) {
	m := ParseMetrics([]byte("# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\"} 3\n# TYPE a_s histogram\na_s_bucket{le=\"+Inf\"} 7\na_s_sum 14\na_s_count 7\n"))
	if got := m.Sum("a", nil); got != 5 {
		t.Errorf("a is %g", got)
	}
	if got := m.Sum("a", func(labels map[string]string) bool { return labels["x"] == "2" }); got != 3 {
		t.Errorf("a of 2 is %g", got)
	}
	if count, sum := m.Histogram("a_s"); count != 7 || sum != 14 {
		t.Errorf("a_s is %g, %g", count, sum)
	}
	if Try(func() { m.Histogram("b") }) == nil {
		t.Error("b was found")
	}
}

func TestProcess(t *testing.T) {
	p := Self()
	p.ResetPeak()
	if p.PID != os.Getpid() || p.Peak() < 1<<20 || p.CPU() < 0 || p.CPU() > time.Hour {
		t.Errorf("%d: %g bytes, %v", p.PID, p.Peak(), p.CPU())
	}
}
