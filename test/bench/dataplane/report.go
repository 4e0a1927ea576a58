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

// The paths, by their names on the page.
const (
	underlay       = "underlay"
	podToPod       = "pod to pod, two nodes"
	unfiltered     = "the same, br_netfilter off"
	overIPv6       = "the same, an IPv6 Network"
	bridgeAndVXLAN = "bridge and VXLAN, no rule, br_netfilter off"
	sameNode       = "pod to pod, one node"
	outside        = "pod to outside, by the gateway"
	nodeToNode     = "node to node, with agents"
)

var pathNames = []string{underlay, podToPod, unfiltered, overIPv6, bridgeAndVXLAN, sameNode, outside, nodeToNode}

// Paths that were measured, the underlay first.
func (r *report) Paths() []string {
	return slices.DeleteFunc(slices.Clone(pathNames), func(path string) bool {
		return path != underlay && r.Count("traffic", path, "p50") == 0
	})
}

// addRound adds the figures of all paths, and their ratios to the underlay's figures in the
// same round.
func addRound(r, round measure.Results) {
	r.AddAll(round)
	for _, path := range pathNames[1:] {
		for _, figure := range trafficFigures {
			if round.Count(path, figure) > 0 {
				r.Add(round.Median(path, figure)/round.Median(underlay, figure), path, figure, "by the underlay's")
			}
		}
	}
}

// Percentiles are p50, p99 and the maximum.
func (r *report) Percentiles(name ...any) string {
	return fmt.Sprintf("%.1f, %.1f, %.1f", r.Percentile(50, name...), r.Percentile(99, name...), r.Percentile(100, name...))
}

// Per is the median in another unit.
func (r *report) Per(unit float64, format string, name ...any) string {
	return fmt.Sprintf(format, r.Median(name...)/unit)
}

// Few is the number of pods of other nodes before many more were created.
func (r *report) Few() int { return r.Count("publication", "begun") }

// AtOnce is the number of pods that were then created at once.
func (r *report) AtOnce() int { return r.standing - r.published }

// All is the number of pods after that.
func (r *report) All() int { return r.Few() + r.AtOnce() }

// AllAndMore also includes the pods that were published one by one after that.
func (r *report) AllAndMore() int { return r.All() + r.Count("standing", "more", "begun") }

// Figures of a path.
func (r *report) Figures() []string { return trafficFigures }

// Targets of the data plane.
func (r *report) Targets() []measure.Target {
	const many = 10_000
	p99 := func(name ...any) measure.Figure {
		return measure.Figure{Median: r.Percentile(99, name...), Least: r.Of(name...).Least, Most: r.Of(name...).Most}
	}
	return []measure.Target{
		{Name: "throughput of one stream, pod to pod across nodes, relative to the underlay", Measured: r.Of("traffic", podToPod, "one stream", "by the underlay's"), Format: "%.2f", Bound: 0.8, AtLeast: true,
			Why: "one core does all the sending work, and VXLAN, two bridges and their filters add work for each byte (see the column of CPU). Bridge and VXLAN alone, without rules, reach " +
				r.Text("%.2f", "traffic", bridgeAndVXLAN, "one stream", "by the underlay's") + ". The row without br_netfilter shows its part of the cost of isolation; a node without kube-proxy's iptables can turn it off"},
		{Name: fmt.Sprintf("entries of %d remote pods: to program them", many), Measured: r.Of("entries", many, "programmed"), Format: "%.1f", Bound: 60, Unit: " ms",
			Why: "it is the kernel's own work for 20,000 messages. Each takes a lock of the whole network configuration and sends a notification, so more threads would not help"},
		{Name: fmt.Sprintf("a resync of %d remote pods without work", many), Measured: r.Of("entries", many, "resync"), Format: "%.1f", Bound: 60, Unit: " ms",
			Why: "by design, the agent reads the whole kernel each time: only this finds the changes of other programs"},
		{Name: "publication to the entry on every node, p99", Measured: p99("publication", "begun"), Format: "%.1f", Bound: 100, Unit: " ms",
			Why: "API server, etcd, three agents and the measurement share the cores"},
		{Name: fmt.Sprintf("the same with %d pods", r.All()), Measured: p99("standing", "more", "begun"), Format: "%.1f", Bound: 100, Unit: " ms",
			Why: "first, by design, an agent reads and compares everything after each change, and then rests as long as the sync took. A pod that is created when a sync begins waits for that sync, the rest, and its own sync. The duration of a sync is below (\"one more pod\"). Second, a sync takes long on this machine: three agents sync on its cores at once, while KWOK makes the pods Ready"},
	}
}

// Missed are the targets that were measured and missed.
func (r *report) Missed() []measure.Target {
	return slices.DeleteFunc(r.Targets(), func(t measure.Target) bool { return t.Reached() || !t.Measured.Measured() })
}

// entriesOf so many remote pods: each has an entry of the bridge, one of its VXLAN device,
// and a neighbour.
func entriesOf(pods int) int { return 3 * pods }
