//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/pod2/pod2/test/bench/measure"
)

// report is what page.md is written from.
type report struct {
	options
	measure.Results
	Machine       string
	Took          time.Duration
	Before, After float64 // % of the machine's CPU that others used, before and after the run
}

// The paths, by the names that they have on the page.
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

// Paths that were taken, the underlay first.
func (r *report) Paths() []string {
	return slices.DeleteFunc(slices.Clone(pathNames), func(path string) bool {
		return path != underlay && r.Count("traffic", path, "p50") == 0
	})
}

// addRound adds the figures of all paths, and what each is by the underlay's in the same
// round.
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

// Percentiles are p50, p99 and the most.
func (r *report) Percentiles(name ...any) string {
	return fmt.Sprintf("%.1f, %.1f, %.1f", r.Percentile(50, name...), r.Percentile(99, name...), r.Percentile(100, name...))
}

// Per is how many of a unit a median has.
func (r *report) Per(unit float64, format string, name ...any) string {
	return fmt.Sprintf(format, r.Median(name...)/unit)
}

// Few is how many pods of other nodes there were before many more came.
func (r *report) Few() int { return r.Count("publication", "begun") }

// AtOnce is how many those were, and All how many there were then.
func (r *report) AtOnce() int { return r.standing - r.published }

// All that stand.
func (r *report) All() int { return r.Few() + r.AtOnce() }

// AllAndMore has those that were published one by one after that.
func (r *report) AllAndMore() int { return r.All() + r.Count("standing", "more", "begun") }

// Figures of a path.
func (r *report) Figures() []string { return trafficFigures }

// Targets that the data plane is held to.
func (r *report) Targets() []measure.Target {
	const many = 10_000
	p99 := func(name ...any) measure.Figure {
		return measure.Figure{Median: r.Percentile(99, name...), Least: r.Of(name...).Least, Most: r.Of(name...).Most}
	}
	return []measure.Target{
		{What: "throughput of one stream, pod to pod across nodes, by the underlay's", Measured: r.Of("traffic", podToPod, "one stream", "by the underlay's"), Format: "%.2f", Bound: 0.8, AtLeast: true,
			Why: "one core does the sending half of it, and with VXLAN, two bridges and their filters more is to be done for each byte: the column of CPU has how much. Bridge and VXLAN alone, with no rule, reach " +
				r.Text("%.2f", "traffic", bridgeAndVXLAN, "one stream", "by the underlay's") + "; of what isolation costs beyond that, br_netfilter, which a node without kube-proxy's iptables can turn off, is what the row without it lacks"},
		{What: fmt.Sprintf("entries of %d remote pods: to program them", many), Measured: r.Of("entries", many, "programmed"), Format: "%.1f", Bound: 60, Unit: " ms",
			Why: "the kernel's own work for 20,000 messages, a lock of all of its network configuration and a notification each; more hands do not speed it up"},
		{What: fmt.Sprintf("a resync of %d remote pods with nothing to do", many), Measured: r.Of("entries", many, "resync"), Format: "%.1f", Bound: 60, Unit: " ms",
			Why: "the kernel is read anew each time, by design: what somebody else changed is found by nothing else"},
		{What: "publication to the entry on every node, p99", Measured: p99("publication", "begun"), Format: "%.1f", Bound: 100, Unit: " ms",
			Why: "API server, etcd, three agents and the one who measures share the cores"},
		{What: fmt.Sprintf("the same when %d pods stand", r.All()), Measured: p99("standing", "more", "begun"), Format: "%.1f", Bound: 100, Unit: " ms",
			Why: "by design, first: an agent reads and compares all that it knows whenever something changes, and rests between two syncs as long as one takes, so that a pod waits for three when it comes as one begins: that one, the rest after it and its own. How long one takes is below, by \"one pod more\"; that it is long here is the machine's part, on whose cores three agents do that at once, while KWOK makes those pods Ready"},
	}
}

// Missed are those that are known to be.
func (r *report) Missed() []measure.Target {
	return slices.DeleteFunc(r.Targets(), func(t measure.Target) bool { return t.Reached() || !t.Measured.Measured() })
}

// entriesOf so many remote pods: each has two of the bridge and its VXLAN device, and a
// neighbour.
func entriesOf(pods int) int { return 3 * pods }
