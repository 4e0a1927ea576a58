package measure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Results are the measured values, by name. A name has parts of any kind, such as a
// contender, its number of pods, and the measured quantity.
type Results map[string][]float64

func joined(name []any) string { return strings.TrimSpace(fmt.Sprintln(name...)) }

// Add a value. A name with several values, of rounds or of pods, has a median.
func (r Results) Add(value float64, name ...any) {
	r[joined(name)] = append(r[joined(name)], value)
}

// AddAll adds the results of a part, with name in front of their names.
func (r Results) AddAll(part Results, name ...any) {
	for _, rest := range slices.Sorted(maps.Keys(part)) {
		full := joined(append(slices.Clone(name), rest))
		r[full] = append(r[full], part[rest]...)
	}
}

// Of returns the figure of a name.
func (r Results) Of(name ...any) Figure { return FigureOf(r[joined(name)]) }

// Median of a name; NaN if nothing was measured.
func (r Results) Median(name ...any) float64 { return r.Of(name...).Median }

// Number is the median for a page.
func (r Results) Number(format string, name ...any) string {
	if median := r.Median(name...); !math.IsNaN(median) {
		return fmt.Sprintf(format, median)
	}
	return "-"
}

// Text is the median with the lowest and highest value, for a page.
func (r Results) Text(format string, name ...any) string { return r.Of(name...).Text(format) }

// Short is the same, or only the median if all values are equal.
func (r Results) Short(format string, name ...any) string {
	if f := r.Of(name...); f.Measured() && f.Least != f.Most {
		return r.Text(format, name...)
	}
	return r.Number(format, name...)
}

// Count is the number of values.
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

// String has the medians, for the log.
func (r Results) String() string {
	var each []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		each = append(each, fmt.Sprintf("%s %.4g", name, r.Median(name)))
	}
	return strings.Join(each, ", ")
}

// Figure is a median with the lowest and highest value; NaN if nothing was measured.
type Figure struct{ Median, Least, Most float64 }

// FigureOf these values.
func FigureOf(values []float64) Figure {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return Figure{math.NaN(), math.NaN(), math.NaN()}
	}
	return Figure{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// Measured says whether there are values.
func (f Figure) Measured() bool { return !math.IsNaN(f.Median) }

// Text is the median, with the lowest and highest value in brackets.
func (f Figure) Text(format string) string {
	if !f.Measured() {
		return "not measured"
	}
	return fmt.Sprintf(format+" ("+format+"-"+format+")", f.Median, f.Least, f.Most)
}

// Target is a bound for a figure.
type Target struct {
	Name         string
	Measured     Figure
	Plain        float64 // the figure without a correction; 0 if none was made
	Format, Unit string
	Bound        float64
	AtLeast      bool // Bound is a minimum, otherwise a maximum
	// Why is the known reason for a miss. The page shows it only if the target is missed.
	Why string
}

// Reached says whether the target is reached. A figure that was not measured is a miss.
func (t Target) Reached() bool {
	if t.AtLeast {
		return t.Measured.Median >= t.Bound
	}
	return t.Measured.Median <= t.Bound
}

// Verdict is Reached in the words of the page.
func (t Target) Verdict() string {
	if t.Reached() {
		return "reached"
	}
	return "**missed**"
}

// Milliseconds of a duration, for a page.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
