package main

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

func (f figure) String() string {
	switch {
	case f.none:
		return "-"
	case f.least == f.most:
		return fmt.Sprintf("%.1f", f.median)
	}
	return fmt.Sprintf("%.1f (%.1f-%.1f)", f.median, f.least, f.most)
}

// table is the one that the command prints.
func (r *results) table() string {
	var s strings.Builder
	s.WriteString("\n| contender | pods | all exist, s | all Ready, s | all gone, s | all recreated, s | all updated in place, s | replacement p50, p99, ms |\n|---|---|---|---|---|---|---|---|\n")
	for _, n := range append(r.sizes, r.large) {
		for _, c := range contenders() {
			if len(r.of(c.name, n)) == 0 {
				continue
			}
			replaced := "-"
			if p50 := r.replaced(c.name, n, 50); p50 > 0 {
				replaced = fmt.Sprintf("%.1f, %.1f", p50, r.replaced(c.name, n, 99))
			}
			fmt.Fprintf(&s, "| %s | %d | %s | %s | %s | %s | %s | %s |\n", c.name, n, r.seconds(c.name, n, exist), r.seconds(c.name, n, ready),
				r.seconds(c.name, n, gone), r.seconds(c.name, n, recreated), r.seconds(c.name, n, inPlace), replaced)
		}
	}
	return s.String()
}

// cost is what the pods cost our controller, or kube-controller-manager.
func (r *results) cost() string {
	var s strings.Builder
	s.WriteString("| contender | pods | POST | PUT | PATCH | DELETE | writes for each pod created | for each deleted by scaling to zero | for each updated in place | CPU until Ready, s | peak memory, MiB |\n")
	s.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, n := range append(r.sizes, r.large) {
		for _, c := range contenders() {
			if len(r.of(c.name, n)) == 0 {
				continue
			}
			mean := func(of func(lap) float64) string {
				f := r.figure(c.name, n, of)
				if f.none {
					return "-"
				}
				return fmt.Sprintf("%.3f", f.median/float64(n))
			}
			cpu, peak := "-", "-"
			if c.name != raw && c.name != rawTwice {
				cpu = r.seconds(c.name, n, func(l lap) time.Duration { return l.computed[c.creator()] }).String()
				peak = fmt.Sprintf("%.0f", r.figure(c.name, n, func(l lap) float64 { return float64(l.peak) }).median/(1<<20))
			}
			fmt.Fprintf(&s, "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.name, n,
				mean(func(l lap) float64 { return l.created.post }), mean(func(l lap) float64 { return l.created.put }),
				mean(func(l lap) float64 { return l.created.patch }), mean(func(l lap) float64 { return l.created.delete }),
				mean(func(l lap) float64 { return l.created.total() }), mean(deleted), mean(updated), cpu, peak)
		}
	}
	return s.String()
}

// row is one of a table of variants of the controller: medians of the largest size.
func (r *results) row(variant string) string {
	n := r.sizes[len(r.sizes)-1]
	perPod := func(of func(lap) float64) string {
		return fmt.Sprintf("%.3f", r.figure(pod2OnOne, n, of).median/float64(n))
	}
	put, total := func(l lap) float64 { return l.created.put }, func(l lap) float64 { return l.created.total() }
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s | %s |\n", variant, n,
		r.seconds(pod2OnOne, n, ready), r.seconds(pod2OnOne, n, gone), perPod(put), perPod(total), perPod(deleted),
		r.seconds(pod2OnOne, n, func(l lap) time.Duration { return l.computed[pod2Controller] }))
}

func (r *results) targetTable() string {
	var s strings.Builder
	s.WriteString("| target | measured | at most | | why |\n|---|---|---|---|---|\n")
	for _, t := range r.targets() {
		verdict, reason := "reached", ""
		value := "not measured"
		if !math.IsNaN(t.value) {
			value = fmt.Sprintf(t.format, t.value)
		}
		if !(t.value <= t.max) {
			verdict = "**missed**"
			if reason = t.reason; reason == "" {
				reason = "not known yet"
			}
		}
		if math.IsNaN(t.value) {
			verdict, reason = "", ""
		}
		fmt.Fprintf(&s, "| %s | %s | %g | %s | %s |\n", t.what, value, t.max, verdict, reason)
	}
	return s.String()
}

func (r *results) unexplained() (most float64) {
	for _, l := range r.laps {
		most = max(most, l.unexplained, -l.unexplained)
	}
	return most
}

func (r *results) page() string {
	n := r.sizes[len(r.sizes)-1]
	st := r.standing
	var s strings.Builder
	fmt.Fprintf(&s, `# Performance

<!-- Written by make bench; what is typed here is lost. -->

`+"`make bench`"+` wrote this page and its plots in %s, on %s, of which the control plane (etcd, kube-apiserver,
kube-controller-manager, kube-scheduler, KWOK with %d nodes), the contenders and the observer share the cores. So the
ratios mean something, and the seconds little. Client-side limits (kube-controller-manager's: 5,000 requests a second) and priority
and fairness are off, for everyone; our policies are installed, for everyone too, and our controller runs as its service account,
without leader election, which would renew a Lease every two seconds. Each contender is alone on a quiet cluster (no write for %s but
leases and the status of nodes); their order rotates and turns round; figures are medians of %d rounds, in brackets the least and the
most, but for what was measured once: updates, deletion by scaling to zero, profiles, and all that is with %d pods.

## Targets

For %d pods, by medians.

%s
## Times

From the request to what one watch sees of the pods. Recreated: a rolling update of all, maxUnavailable 25%%, maxSurge 0; in
place: of the image alone, likewise. A StatefulSet rolls one pod at a time, which was not waited for. Replacement: from the
deletion of a pod, without a grace period, to the creation of the next, %d times in each round, one after the other. With a grace period a
ReplicaSet replaces a pod as soon as that is being deleted; a Pod2, like a StatefulSet, once it is gone.
%s
`, r.took.Round(time.Second), r.machine, max(r.large, n)/podsPerNode+3, quiet, r.rounds, r.large, n, r.targetTable(), r.deletions, r.table())
	for _, n := range append(r.sizes, r.large) {
		if n > 0 {
			fmt.Fprintf(&s, "![pods over time, %d](performance/pods-%d.svg)\n", n, n)
		}
	}
	fmt.Fprintf(&s, `
## Costs

Writes are requests of our controller, a pod's share each, as its own client counts them: pods, the ledger, status, names,
events. Of a Pod2's laps (creation, updates in place, scaling to zero) the API server's count of what only we write, and of our events, differs from that by
%.0f writes at most, of which none is a DELETE by the client's count, since KWOK deletes pods, too, and the
API server's has those of slices and Services. [block-sizes.md](performance/block-sizes.md) has what other sizes of the ledger's
blocks would cost. CPU and memory are those of the process that creates the pods: ours, or kube-controller-manager's; the peak of memory has what earlier laps left.

%s`, r.unexplained(), r.cost())
	fmt.Fprintf(&s, `
CPU seconds until all of %d are Ready, by process, medians:

%s`, n, r.profile(n))
	if len(r.profiles) > 0 {
		fmt.Fprintf(&s, `
Where those seconds go, by CPU profiles of one lap more of some, which does not count above: each sample is the first row's that
any function on its stack is of. Policies are Kubernetes' machinery for them and ours, which every write of a pod passes.
%s%s`, r.spentTable(apiServer, serverAreas), r.spentTable(pod2Controller, controllerAreas))
	}
	if st.n > 0 {
		fmt.Fprintf(&s, `
With %d pods standing on one Network:

| | |
|---|---|
| heap in use after a collection, of which without a pod | %.1f MiB, %.1f MiB |
| a start, its heap sampled for the profile below: until the caches are full, until everything was looked at | %.1f s, %.1f s |
| a start: writes | %.0f |
| in %s with nothing to do: API calls, writes, CPU | %.0f, %.0f, %.2f s |
%s`, st.n, st.live/(1<<20), st.base/(1<<20), st.start.Seconds(), st.synced.Seconds(), st.startWrites, st.idle, st.calls, st.writes, st.cpu.Seconds(), r.heapTable())
	}
	if r.tables != "" {
		fmt.Fprintf(&s, "\n## Decisions\n\nBenchmarks of Diff, and of one sync that binds one address, up to its write of the ledger, by the number of what there is and beside the least of that. Of a Network with 1,000 and with 65,000 addresses the last block,\nwhich is the one that is written, is equally full; with 10,000 it is nearly empty.\n\n```\n%s```\n", r.tables)
	}
	return s.String()
}

// plots are the laps to draw, by the name of the file: of each contender the one of the
// median.
func (r *results) plots() map[string][]lap {
	plots := map[string][]lap{}
	for _, n := range append(r.sizes, r.large) {
		for _, c := range contenders() {
			laps := r.of(c.name, n)
			if len(laps) == 0 {
				continue
			}
			middle := laps[0]
			want := r.seconds(c.name, n, ready).median
			for _, l := range laps {
				if cmp.Compare(distance(l.ready.Seconds(), want), distance(middle.ready.Seconds(), want)) < 0 {
					middle = l
				}
			}
			file := fmt.Sprintf("pods-%d", n)
			plots[file] = append(plots[file], middle)
		}
	}
	return plots
}

func distance(a, b float64) float64 { return max(a-b, b-a) }
