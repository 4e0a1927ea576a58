//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

type results struct {
	options
	machine     string
	begin       time.Time
	took        time.Duration
	busy, later float64 // share of the machine's CPU that others used just before and after
	entries     map[int][]programming
	joinings    map[int][]joining
	traffic     []map[string]traffic // of each round, by path
	few         publication
	moves       []move
	restartSent int
	restartLost int
	standing    standing
	fanout      fanout
	life        life
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

// publication is, of each pod, how long it took until the last node had its entry.
type publication struct{ begun, answered []time.Duration }

func (p publication) String() string {
	return fmt.Sprintf("p50 %s, p99 %s, most %s ms", ms(at(p.begun, 50)), ms(at(p.begun, 99)), ms(at(p.begun, 100)))
}

type move struct {
	lost                         int
	unplugged, written, attached time.Duration
}

// figure is a median and what it lies between; NaN if nothing was measured.
type figure struct{ median, least, most float64 }

func figureOf(values []float64) figure {
	if len(values) == 0 {
		return figure{math.NaN(), math.NaN(), math.NaN()}
	}
	values = slices.Sorted(slices.Values(values))
	median := values[len(values)/2]
	if len(values)%2 == 0 {
		median = (median + values[len(values)/2-1]) / 2
	}
	return figure{median, values[0], values[len(values)-1]}
}

func (f figure) text(format string) string {
	if math.IsNaN(f.median) {
		return "not measured"
	}
	return fmt.Sprintf(format+" ("+format+"-"+format+")", f.median, f.least, f.most)
}

func figureBy[T any](list []T, of func(T) float64) figure {
	var values []float64
	for _, x := range list {
		values = append(values, of(x))
	}
	return figureOf(values)
}

// by is a figure of a path, over the rounds.
func (r *results) by(path string, of func(traffic) float64) figure {
	return figureBy(r.traffic, func(round map[string]traffic) float64 { return of(round[path]) })
}

// ratio is that of a path to the underlay in the same round.
func (r *results) ratio(path string, of func(traffic) float64) figure {
	return figureBy(r.traffic, func(round map[string]traffic) float64 { return of(round[path]) / of(round[underlay]) })
}

func oneStream(t traffic) float64   { return t.oneStream }
func perGB(t traffic) float64       { return t.perGB }
func fourStreams(t traffic) float64 { return t.fourStreams }
func packets(t traffic) float64     { return t.packets }
func p50(t traffic) float64         { return float64(t.p50) / float64(time.Microsecond) }
func p99(t traffic) float64         { return float64(t.p99) / float64(time.Microsecond) }

// percentile of sorted durations by the nearest rank; below zero if there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return -1
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// at is the percentile of what is in no order.
func at(list []time.Duration, p int) time.Duration {
	return percentile(slices.Sorted(slices.Values(list)), p)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", milliseconds(d)) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// of is a figure of programming so many pods, in milliseconds.
func (r *results) of(pods int, what func(programming) time.Duration) figure {
	return figureBy(r.entries[pods], func(p programming) float64 { return milliseconds(what(p)) })
}

func apply(p programming) time.Duration     { return p.apply }
func decided(p programming) time.Duration   { return p.decide }
func read(p programming) time.Duration      { return p.read }
func compare(p programming) time.Duration   { return p.compare }
func moved(p programming) time.Duration     { return p.move }
func elsewhere(p programming) time.Duration { return p.elsewhere }

// target is what the data plane is held to.
type target struct {
	what     string
	measured figure
	format   string
	unit     string
	bound    float64
	atLeast  bool // bound is the least; else the most
	// why it is missed, where that is known: it is told if it is.
	why string
}

func (t target) reached() bool {
	if t.atLeast {
		return t.measured.median >= t.bound
	}
	return t.measured.median <= t.bound
}

func (r *results) targets() []target {
	const many = 10_000
	p99of := func(p publication) figure {
		if len(p.begun) == 0 {
			return figureOf(nil)
		}
		f := milliseconds(at(p.begun, 99))
		return figure{f, milliseconds(at(p.begun, 0)), milliseconds(at(p.begun, 100))}
	}
	return []target{
		{"throughput of one stream, pod to pod across nodes, by the underlay's", r.ratio(podToPod, oneStream), "%.2f", "", 0.8, true,
			"one core does the sending half of it, and with VXLAN, two bridges and their filters more is to be done for each byte: the column of CPU has how much. Bridge and VXLAN alone, with no rule, reach " +
				r.ratio(bridgeAndVXLAN, oneStream).text("%.2f") + "; of what isolation costs beyond that, br_netfilter, which a node without kube-proxy's iptables can turn off, is what the row without it lacks"},
		{fmt.Sprintf("entries of %d remote pods: to program them", many), r.of(many, apply), "%.1f", " ms", 60, false,
			"the kernel's own work for 20,000 messages, a lock of all of its network configuration and a notification each; more hands do not speed it up"},
		{fmt.Sprintf("a resync of %d remote pods with nothing to do", many), r.of(many, programming.resync), "%.1f", " ms", 60, false,
			"the kernel is read anew each time, by design: what somebody else changed is found by nothing else"},
		{"publication to the entry on every node, p99", p99of(r.few), "%.1f", " ms", 100, false,
			"API server, etcd, three agents and the one who measures share the cores"},
		{fmt.Sprintf("the same when %d pods stand", r.standing.pods), p99of(r.standing.one), "%.1f", " ms", 100, false,
			"by design, first: an agent reads and compares all that it knows whenever something changes, and rests between two syncs as long as one takes, so that a pod waits for three when it comes as one begins: that one, the rest after it and its own. How long one takes is below, by \"one pod more\"; that it is long here is the machine's part, on whose cores three agents do that at once, while KWOK makes those pods Ready"},
	}
}
