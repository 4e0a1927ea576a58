package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/perf/benchfmt"
)

type results struct {
	options
	machine  string
	begin    time.Time
	took     time.Duration
	laps     []lap
	standing standing
	profiles []profiled
	// tables of benchstat; sync is the benchmark of one sync, by the number of bound
	// addresses.
	tables string
	sync   map[int]syncCost
}

// of are the laps of one contender at one size.
func (r *results) of(contender string, n int) (laps []lap) {
	for _, l := range r.laps {
		if l.contender == contender && l.n == n {
			laps = append(laps, l)
		}
	}
	return laps
}

// figure is a median and what it lies between; none if nothing was measured, and no
// number then.
type figure struct {
	median, least, most float64
	none                bool
}

func figureOf(values []float64) figure {
	if len(values) == 0 {
		return figure{median: math.NaN(), none: true}
	}
	slices.Sort(values)
	median := values[len(values)/2]
	if len(values)%2 == 0 {
		median = (median + values[len(values)/2-1]) / 2
	}
	return figure{median: median, least: values[0], most: values[len(values)-1]}
}

// seconds is the figure of a duration, of the laps that have it.
func (r *results) seconds(contender string, n int, of func(lap) time.Duration) figure {
	return r.figure(contender, n, func(l lap) float64 { return of(l).Seconds() })
}

func (r *results) figure(contender string, n int, of func(lap) float64) figure {
	var values []float64
	for _, l := range r.of(contender, n) {
		if v := of(l); v >= 0 {
			values = append(values, v)
		}
	}
	return figureOf(values)
}

// deleted and updated are counts of writes, below zero where they were not measured.
func deleted(l lap) float64 { return totalOf(l.deleted) }
func updated(l lap) float64 { return totalOf(l.updated) }

func totalOf(w *writes) float64 {
	if w == nil {
		return -1
	}
	return w.total()
}

func exist(l lap) time.Duration     { return l.exist }
func ready(l lap) time.Duration     { return l.ready }
func gone(l lap) time.Duration      { return l.gone }
func recreated(l lap) time.Duration { return l.recreated }
func inPlace(l lap) time.Duration   { return l.inPlace }

// percentile of sorted durations by the nearest rank; below zero if there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return -1
	}
	return sorted[(len(sorted)*p+99)/100-1]
}

// replaced is a percentile of the deletions of all rounds, in milliseconds.
func (r *results) replaced(contender string, n, p int) float64 {
	var durations []time.Duration
	for _, l := range r.of(contender, n) {
		durations = append(durations, l.replaced...)
	}
	if len(durations) == 0 {
		return math.NaN()
	}
	slices.Sort(durations)
	return float64(percentile(durations, p)) / float64(time.Millisecond)
}

// syncCost is a median.
type syncCost struct{ milliseconds, kib float64 }

// readBenchmarks takes what test/bench/bench.sh had go test measure, if it did.
func (r *results) readBenchmarks() error {
	if r.benchmarks == "" {
		return nil
	}
	tables, err := os.ReadFile(r.benchmarkTables)
	if err != nil {
		return fmt.Errorf("read benchstat's tables: %w", err)
	}
	r.tables = string(tables)
	file, err := os.Open(r.benchmarks)
	if err != nil {
		return fmt.Errorf("read the benchmarks: %w", err)
	}
	defer file.Close()
	times, sizes := map[int][]float64{}, map[int][]float64{}
	reader := benchfmt.NewReader(file, file.Name())
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue // a line that is none
		}
		var bound int
		if _, err := fmt.Sscanf(string(result.Name), "SyncNetwork/bound=%d", &bound); err != nil {
			continue
		}
		seconds, _ := result.Value("sec/op")
		bytes, _ := result.Value("B/op")
		times[bound], sizes[bound] = append(times[bound], seconds*1000), append(sizes[bound], bytes/1024)
	}
	if len(times) == 0 {
		return fmt.Errorf("%s has no BenchmarkSyncNetwork", file.Name())
	}
	r.sync = map[int]syncCost{}
	for bound := range times {
		r.sync[bound] = syncCost{figureOf(times[bound]).median, figureOf(sizes[bound]).median}
	}
	return reader.Err()
}
