package measure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Results are the values of each thing that was measured, by its name: parts of any kind,
// such as a contender, how many pods it had, and what of it was measured.
type Results map[string][]float64

func joined(name []any) string { return strings.TrimSpace(fmt.Sprintln(name...)) }

// Add a value. What has several, of rounds or of pods, has a median.
func (r Results) Add(value float64, name ...any) {
	r[joined(name)] = append(r[joined(name)], value)
}

// AddAll adds the results of a part, by names that begin with its own.
func (r Results) AddAll(part Results, name ...any) {
	for _, rest := range slices.Sorted(maps.Keys(part)) {
		full := joined(append(slices.Clone(name), rest))
		r[full] = append(r[full], part[rest]...)
	}
}

// Of is the figure of a name.
func (r Results) Of(name ...any) Figure { return FigureOf(r[joined(name)]) }

// Median of a name; NaN if nothing was measured.
func (r Results) Median(name ...any) float64 { return r.Of(name...).Median }

// Number is the median as a page has it.
func (r Results) Number(format string, name ...any) string {
	if median := r.Median(name...); !math.IsNaN(median) {
		return fmt.Sprintf(format, median)
	}
	return "-"
}

// Text is the median and what it lies between, as a page has them.
func (r Results) Text(format string, name ...any) string { return r.Of(name...).Text(format) }

// Short is the same, without what it lies between where that is the median alone.
func (r Results) Short(format string, name ...any) string {
	if f := r.Of(name...); f.Measured() && f.Least != f.Most {
		return r.Text(format, name...)
	}
	return r.Number(format, name...)
}

// Count is how many values there are.
func (r Results) Count(name ...any) int { return len(r[joined(name)]) }

// Percentile of the values of a name.
func (r Results) Percentile(p int, name ...any) float64 {
	return PercentileOf(r[joined(name)], p)
}

// PercentileOf values by the nearest rank; NaN if there are none.
func PercentileOf(values []float64, p int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// String has the medians, for who watches.
func (r Results) String() string {
	var each []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		each = append(each, fmt.Sprintf("%s %.4g", name, r.Median(name)))
	}
	return strings.Join(each, ", ")
}

// Figure is a median and what it lies between; NaN if nothing was measured.
type Figure struct{ Median, Least, Most float64 }

// FigureOf so many values.
func FigureOf(values []float64) Figure {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return Figure{math.NaN(), math.NaN(), math.NaN()}
	}
	return Figure{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// Measured says whether anything was.
func (f Figure) Measured() bool { return !math.IsNaN(f.Median) }

// Text is the median, and in brackets what it lies between.
func (f Figure) Text(format string) string {
	if !f.Measured() {
		return "not measured"
	}
	return fmt.Sprintf(format+" ("+format+"-"+format+")", f.Median, f.Least, f.Most)
}

// Target is what a figure is held to.
type Target struct {
	What         string
	Measured     Figure
	Format, Unit string
	Bound        float64
	AtLeast      bool // Bound is the least; else the most
	// Why it may be missed, where that is known: it is told if it is.
	Why string
}

// Reached says whether it is; what was not measured is not.
func (t Target) Reached() bool {
	if t.AtLeast {
		return t.Measured.Median >= t.Bound
	}
	return t.Measured.Median <= t.Bound
}

// Verdict is that in the words of the page.
func (t Target) Verdict() string {
	if t.Reached() {
		return "reached"
	}
	return "**missed**"
}

// Milliseconds are a duration, for a page.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
