//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/pod2/pod2/test/bench/measure"
)

// report is the data for page.md.
type report struct {
	options
	measure.Results
	Machine       string
	Took          time.Duration
	Before, After float64 // % of the machine's CPU that others used, before and after the run
}

// comparison of a path with another one. Bound is 0 if it has no target.
type comparison struct {
	Wire, Path, With, Figure string
	Bound                    float64
}

// comparisons also decide which figures are measured.
var comparisons = []comparison{
	{gso, podToPod, theWire, one, 0.85}, {nic, podToPod, theWire, one, 0.80}, {cut, podToPod, theWire, one, 0.62},
	{gso, podToPod, theWire, four, 0.88}, {nic, podToPod, theWire, four, 0.76}, {cut, podToPod, theWire, four, 0.55},
	{gso, podToPod, theWire, small, 0.70}, {nic, podToPod, theWire, small, 0.70}, {cut, podToPod, theWire, small, 0.70},
	{gso, podToPod, theWire, pingPong, 1.35}, {nic, podToPod, theWire, pingPong, 1.35}, {cut, podToPod, theWire, pingPong, 1.35},
	{cut, cutWire, theWire, one, 0}, {cut, podToPod, cutWire, one, 0}, {cut, cutWire, theWire, four, 0}, {cut, podToPod, cutWire, four, 0},
	{gso, podToPod, theWire, cpu, 1.20},
	{gso, overIPv6, theWire, one, 0.82},
	{gso, outside, theWire, one, 0.75},
	{gso, sameNode, plainBridge, one, 1.0}, {gso, sameNode, plainBridge, small, 0}, {gso, sameNode, plainBridge, pingPong, 0},
	{gso, nodeToNode, theWire, one, 0}, {gso, nodeToNode, theWire, small, 0}, {gso, nodeToNode, theWire, pingPong, 0},
}

// needed says whether a comparison needs this figure.
func needed(wire, path, figure string) bool {
	return slices.ContainsFunc(comparisons, func(c comparison) bool {
		return c.Wire == wire && c.Figure == figure && (c.Path == path || c.With == path)
	})
}

// addRound adds the figures of all paths, and their ratios in this round.
func addRound(r measure.Results, wire string, round measure.Results) {
	r.AddAll(round, wire)
	for _, c := range comparisons {
		if c.Wire == wire {
			r.Add(round.Median(c.Path, c.Figure)/round.Median(c.With, c.Figure), wire, c.Path, c.Figure, "relative to", c.With)
		}
	}
}

// Comparison for a row of the page.
type Comparison struct {
	comparison
	Target measure.Target
}

func (r *report) Comparisons() (rows []Comparison) {
	for _, c := range comparisons {
		rows = append(rows, Comparison{c, measure.Target{Measured: r.Of("traffic", c.Wire, c.Path, c.Figure, "relative to", c.With), Format: "%.2f", Bound: c.Bound, AtLeast: c.Figure != cpu && c.Figure != pingPong}})
	}
	return rows
}

// Absolute is the figure of a path with its unit.
func (r *report) Absolute(wire, path, figure string) string {
	units := map[string]string{one: "%.1f Gbit/s", four: "%.1f Gbit/s", cpu: "%.0f ms/GB", small: "%.0f k/s", pingPong: "%.1f µs"}
	return r.Number(units[figure], "traffic", wire, path, figure)
}

// Targets of the agent.
func (r *report) Targets() []measure.Target {
	ms := func(name string, f measure.Figure, bound float64) measure.Target {
		return measure.Target{Name: name, Measured: f, Format: "%.1f", Unit: " ms", Bound: bound}
	}
	binding := r.Of("binding")
	binding.Median = r.Percentile(99, "binding")
	return []measure.Target{
		ms(fmt.Sprintf("a pod is bound to a node: the last node's entry, %d pods standing, p99", r.Standing), binding, 30),
		ms(fmt.Sprintf("%d entries programmed", r.Entries), r.Of("entries", "programmed"), 50),
		ms(fmt.Sprintf("%d entries compared, none differs", r.Entries), r.Of("entries", "compared"), 100),
		{Name: "a pod moves to another node: packets lost, more than if it is unplugged and plugged in", Measured: r.Of("moves", "more"), Format: "%.0f", Bound: 60},
		{Name: "an agent restarts: packets lost", Measured: r.Of("restart all", "lost"), Format: "%.0f", Bound: 0},
	}
}
