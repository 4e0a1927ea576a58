//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

func (r *results) targetTable() string {
	var s strings.Builder
	s.WriteString("| target | bound | measured | |\n|---|---|---|---|\n")
	var why []string
	for _, t := range r.targets() {
		bound, verdict := "at most", "reached"
		if t.atLeast {
			bound = "at least"
		}
		switch {
		case math.IsNaN(t.measured.median):
			verdict = "**missed**"
		case !t.reached():
			verdict = "**missed**"
			why = append(why, fmt.Sprintf("- %s: %s.\n", t.what, t.why))
		}
		fmt.Fprintf(&s, "| %s | %s %g%s | %s | %s |\n", t.what, bound, t.bound, t.unit, t.measured.text(t.format), verdict)
	}
	if len(why) > 0 {
		s.WriteString("\nWhy missed:\n\n" + strings.Join(why, ""))
	}
	return s.String()
}

// paths that were taken, the underlay first.
func (r *results) paths() []string {
	return slices.DeleteFunc([]string{underlay, podToPod, unfiltered, overIPv6, bridgeAndVXLAN, sameNode, outside, nodeToNode}, func(name string) bool {
		if len(r.traffic) == 0 {
			return name != underlay
		}
		_, taken := r.traffic[0][name]
		return !taken
	})
}

func (r *results) trafficTable() string {
	var s strings.Builder
	s.WriteString("| path | one stream, Gbit/s | its CPU, ms/GB | four streams, Gbit/s | 64 bytes, 1,000 packets/s | there and back p50, µs | p99, µs |\n|---|---|---|---|---|---|---|\n")
	for _, path := range r.paths() {
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s | %s |\n", path, r.by(path, oneStream).text("%.1f"), r.by(path, perGB).text("%.0f"), r.by(path, fourStreams).text("%.1f"),
			r.by(path, func(t traffic) float64 { return t.packets / 1000 }).text("%.0f"), r.by(path, p50).text("%.0f"), r.by(path, p99).text("%.0f"))
	}
	s.WriteString("\nBy the underlay's in the same round:\n\n| path | one stream | its CPU | four streams | 64 bytes | p50 | p99 |\n|---|---|---|---|---|---|---|\n")
	for _, path := range r.paths()[1:] {
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s | %s |\n", path, r.ratio(path, oneStream).text("%.2f"), r.ratio(path, perGB).text("%.2f"), r.ratio(path, fourStreams).text("%.2f"),
			r.ratio(path, packets).text("%.2f"), r.ratio(path, p50).text("%.2f"), r.ratio(path, p99).text("%.2f"))
	}
	return s.String()
}

func (r *results) entriesTable() string {
	var s strings.Builder
	s.WriteString("| remote pods | decided, ms | programmed, ms | entries/s | half of them move, ms | resync, ms | of which read, decide | elsewhere, ms |\n|---|---|---|---|---|---|---|---|\n")
	for _, n := range r.sizes {
		perSecond := figureBy(r.entries[n], func(p programming) float64 { return entriesOf(n) / p.apply.Seconds() })
		fmt.Fprintf(&s, "| %d | %s | %s | %.0f | %s | %s | %.1f, %.1f | %s |\n", n, r.of(n, decided).text("%.1f"), r.of(n, apply).text("%.1f"), perSecond.median, r.of(n, moved).text("%.1f"),
			r.of(n, programming.resync).text("%.1f"), r.of(n, read).median, r.of(n, compare).median, r.of(n, elsewhere).text("%.1f"))
	}
	return s.String()
}

// entriesOf so many remote pods: each has two of the bridge and its VXLAN device, and a
// neighbour.
func entriesOf(pods int) float64 { return 3 * float64(pods) }

func (r *results) publicationTable() string {
	var s strings.Builder
	s.WriteString("| pods by then | published | from the request: p50, p99, most, ms | from the answer: p50, p99, most, ms |\n|---|---|---|---|\n")
	for _, row := range []struct {
		stand int
		p     publication
	}{{len(r.few.begun), r.few}, {r.standing.pods + len(r.standing.one.begun), r.standing.one}} {
		list := func(d []time.Duration) string { return ms(at(d, 50)) + ", " + ms(at(d, 99)) + ", " + ms(at(d, 100)) }
		fmt.Fprintf(&s, "| %d | %d, one by one | %s | %s |\n", row.stand, len(row.p.begun), list(row.p.begun), list(row.p.answered))
	}
	return s.String()
}

func (r *results) page() string {
	var s strings.Builder
	lost := figureBy(r.moves, func(m move) float64 { return float64(m.lost) })
	part := func(of func(move) time.Duration) float64 {
		return figureBy(r.moves, func(m move) float64 { return milliseconds(of(m)) }).median
	}
	st := r.standing
	fmt.Fprintf(&s, `# Performance of the data plane

<!-- Written by make bench-dataplane; what is typed here is lost. -->

`+"`make bench-dataplane`"+` wrote this page in %s, on %s, which were %.0f %% busy with something else just before, and %.0f %% just after.
Everything shares them: three nodes, each a network namespace with the real pod2-agent, on one wire, a bridge that takes 1500
bytes; who sends, who receives and who measures; and the control plane (etcd, kube-apiserver, kube-controller-manager,
kube-scheduler, KWOK) that the agents watch. So the ratios mean something, and the rest says what this machine can do. Figures
are medians of %d rounds, in brackets the least and the most, but for percentiles, which are of all rounds.

## Targets

%s
## Packets

Each round takes each figure of all paths, one path after the other. The underlay is two namespaces on the same wire, with no agent, no rule and no
connection tracking in them. Between pods of two nodes a packet goes through pod, bridge, VXLAN, wire, and back up; to the outside
through bridge, router, NAT, node, NAT. Pods' packets are of 1450 bytes at most. br_netfilter is on in the nodes, as kube-proxy has it,
so that what is bridged passes the chains of the node, too. Bridge and VXLAN alone are two nodes more with the agent's links and entries and none of
its rules: what another path lacks to it is what isolation costs. Streams are TCP, written and read by Go in 128 and 256 KiB; small packets
are UDP from one sender that never waits, counted where they arrive; there and back is UDP of 64 bytes, one after the other. CPU is what the
process of sender and receiver is charged with, the kernel's work on its behalf included: it says more than Gbit/s where others use the machine.

%s
## Entries

What the agent does to a node that is on the Network, without its watch: as many pods of another node come; the last entries are
there; half of the pods move to a third node; nothing is to be done (the kernel is read, all is decided and compared). Elsewhere is
what the decision takes longer if there are as many pods once more, on a Network that is not on the node. A pod of another node has three entries: the
VXLAN destination, the bridge's, the neighbour.

%s
And what a Network costs, each with its bridge, its VXLAN device, its router in a namespace of its own and their rules, all of one CIDR:

%s
## From publication to the entry

A pod is created that publishes its address and is on a node (one write to the real API server, from which on it counts), and the kernel
of each node says when it has the pod's last entry: the figure is of the last node. Every pod is another. The agents
are at rest before it in the first row; in the second they are told meanwhile of the pods that KWOK still makes Ready.

%s
All at once, %d more: the API server had answered for all after %.1f s, and %.2f s later the last node had the last entry.

## A pod moves, an agent restarts

A pod is sent a packet each millisecond, by a pod of a third node, and sends it back. It is unplugged (%.1f ms), its object is deleted and another
of its name and address created on another node (%.1f ms), CNI's plugin is played (%.1f ms), which is all in what is lost; a kubelet
takes longer to start a pod.

%d moves: **%s packets lost**, of one a millisecond.

The agents of both nodes end and come back while packets go between their pods: **%d of %d lost**.

%s`, r.took.Round(time.Second), r.machine, 100*r.busy, 100*r.later, r.rounds, r.targetTable(), r.trafficTable(), r.entriesTable(), r.networksTable(), r.publicationTable(),
		st.pods-st.fewPods, st.written.Seconds(), st.after.Seconds(),
		part(func(m move) time.Duration { return m.unplugged }), part(func(m move) time.Duration { return m.written }), part(func(m move) time.Duration { return m.attached }),
		len(r.moves), lost.text("%.0f"), r.restartLost, r.restartSent, r.paper())
	return s.String()
}
