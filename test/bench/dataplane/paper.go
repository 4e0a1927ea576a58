//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The cluster on paper: what is assumed of it.
const (
	paperNodes       = 5_000
	paperPods        = 150_000
	paperNetworkPods = 1_000 // of each Network
	paperLife        = 24 * time.Hour
	paperNodeStatus  = 5 * time.Minute // how often a kubelet writes the status of its Node
)

// scale is what the cluster on paper costs, each figure from those that were measured.
type scale struct {
	podsPerNode, networksHere, remote float64
	lives, events, changes            float64 // a second, of the watch of one agent

	memoryPerPod, memory  float64
	listPerPod, list      float64 // bytes
	startCPU              float64 // seconds
	read, decide, sync    float64 // milliseconds
	routers               float64 // milliseconds
	cpu                   float64 // share of a core
	wire                  float64 // bytes/s
	told, toldNodes       float64 // events/s, by the API server
	toldBytes, serverCPU  float64
	restarted             float64 // bytes, when a tenth of the agents restarts
	slice, slicesTold     float64
	slicesBytes, slicesBy float64
}

func (r *results) scale() scale {
	var s scale
	st, l, f := r.standing, r.life, r.fanout
	s.podsPerNode = float64(paperPods) / paperNodes
	s.networksHere = min(s.podsPerNode, float64(paperPods)/paperNetworkPods)
	s.remote = s.networksHere * paperNetworkPods
	s.lives = paperPods / paperLife.Seconds()
	s.events, s.changes = s.lives*l.events, s.lives*l.counts
	more := float64(st.pods - st.fewPods)
	s.memoryPerPod = (st.all.peak - st.few.peak) / more
	s.memory = st.few.peak + paperPods*s.memoryPerPod
	s.listPerPod = (st.all.bytes - st.few.bytes) / more
	s.list = st.few.bytes + paperPods*s.listPerPod
	s.startCPU = st.few.cpu.Seconds() + paperPods*(st.all.cpu-st.few.cpu).Seconds()/more
	n := r.sizes[len(r.sizes)-1]
	perPod := func(what func(programming) time.Duration) float64 { return r.of(n, what).median / float64(n) }
	s.read = s.remote * perPod(read)
	s.decide = s.remote*perPod(compare) + (paperPods-s.remote)*perPod(elsewhere)
	s.routers = (s.networksHere - 1) * (r.perNetwork(joining.reading) + r.perNetwork(joining.deciding))
	s.sync = s.read + s.decide + s.routers
	// The agent rests as long as a sync took, so that it never computes more than half the time.
	s.cpu = min(0.5, s.changes*s.sync/1000)
	s.wire = s.lives * l.wire
	s.told = paperNodes * s.events
	s.toldNodes = paperNodes * paperNodes / paperNodeStatus.Seconds()
	s.toldBytes = paperNodes * s.wire
	s.serverCPU = s.told * f.each().Seconds()
	s.restarted = paperNodes / 10 * s.list
	s.slice = float64(len(`{"address":"192.168.100.100","node":"node-1234"},`)) * 100
	s.slicesBy = math.Min(paperNodes, paperNetworkPods)
	s.slicesTold = s.lives * 2 * s.slicesBy
	s.slicesBytes = s.slicesTold * s.slice
	return s
}

// paper is the calculation, a line a figure, each with what it is made of.
func (r *results) paper() string {
	c, st, l, f := r.scale(), r.standing, r.life, r.fanout
	n := r.sizes[len(r.sizes)-1]
	var b strings.Builder
	fmt.Fprintf(&b, `## What an agent costs

| | with %d pods of other nodes | with %d |
|---|---|---|
| a start: ready after | %.2f s | %.2f s |
| a start: CPU | %.2f s | %.2f s |
| a start: received | %.1f KB | %.1f MB |
| the most memory by then | %.0f MiB | %.0f MiB |

One pod more, when they stand and KWOK still makes them Ready, of which the agents are told, too: %.0f ms of CPU of each agent, %.0f bytes received, %.1f syncs of %.0f ms.

A pod's life (a Pod2 of %d replicas on a Network, brought up by pod2-controller, scheduled, made Ready by KWOK, deleted): %.1f events of the agents'
watch, of which %.1f change what an agent knows; %.0f bytes in protobuf, %.0f on the wire, TLS and the watches of the rest included.

An event, to one watcher: %.0f bytes and %.1f µs of the API server's CPU (%d changes of pods took %.2f s of its CPU, with %d watchers more %.2f s).

## On paper

What %d nodes and %d pods would cost: calculated, not measured, from the figures above; linear where nothing else is said. Assumed: Networks of
%d pods each; every pod of a node on another of them, which is the worst case; a pod lives for %.0f hours; a kubelet writes its Node's status each %.0f minutes.

| | calculation | |
|---|---|---|
`, st.fewPods, st.pods, st.few.ready.Seconds(), st.all.ready.Seconds(), st.few.cpu.Seconds(), st.all.cpu.Seconds(), st.few.bytes/1e3, st.all.bytes/1e6, st.few.peak/(1<<20), st.all.peak/(1<<20),
		milliseconds(st.oneCPU), st.oneBytes, st.oneSyncs, milliseconds(st.syncAtRest),
		l.pods, l.events, l.counts, l.bytes, l.wire, f.bytes, float64(f.each())/1e3, f.changes, f.without.Seconds(), f.watchers, f.with.Seconds(),
		paperNodes, paperPods, paperNetworkPods, paperLife.Hours(), paperNodeStatus.Minutes())
	row := func(what, how, result string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", what, how, fmt.Sprintf(result, args...))
	}
	row("pods of a node; Networks on it", fmt.Sprintf("%d / %d; as many, if there are", paperPods, paperNodes), "%.0f; %.0f", c.podsPerNode, c.networksHere)
	row("**an agent**: remote pods in its kernel; entries", fmt.Sprintf("%.0f x %d; three each", c.networksHere, paperNetworkPods), "%.0f; %.0f", c.remote, entriesOf(int(c.remote)))
	row("memory", fmt.Sprintf("%.0f MiB + %d x %.1f KiB (the two columns above, by their difference)", st.few.peak/(1<<20), paperPods, c.memoryPerPod/1024), "%.0f MiB", c.memory/(1<<20))
	row("a start: received", fmt.Sprintf("%d x %.0f bytes", paperPods, c.listPerPod), "%.0f MB", c.list/1e6)
	row("a start: CPU", "likewise", "%.1f s", c.startCPU)
	row("events a second; of which change what it knows", fmt.Sprintf("%.2f lives a second x %.1f; x %.1f", c.lives, l.events, l.counts), "%.1f; %.1f", c.events, c.changes)
	row("received a second", fmt.Sprintf("%.2f lives x %.0f bytes", c.lives, l.wire), "%.0f KB", c.wire/1e3)
	row("a sync", fmt.Sprintf("read %.0f pods' entries (by the %d above): %.0f ms; decide on %d pods: %.0f ms; %.0f Networks more, with their routers: %.0f ms; left out: copying what is watched", c.remote, n, c.read, paperPods, c.decide, c.networksHere-1, c.routers), "%.0f ms", c.sync)
	row("from a change that the agent is told to its entry", "a sync, if it comes while the agent waits; three, if it comes as one begins: that one, as long a rest, its own", "%.0f to %.0f ms", c.sync, 3*c.sync)
	row("CPU", fmt.Sprintf("%.1f changes a second x a sync each; at most half a core, since it rests as long as it works", c.changes), "%.0f %% of a core", 100*c.cpu)
	row("**the API server**: watches", fmt.Sprintf("%d agents x 4 (pods, Nodes, Networks, the endpoints of the API server)", paperNodes), "%d", 4*paperNodes)
	row("events of pods told a second", fmt.Sprintf("%d x %.1f", paperNodes, c.events), "%.0f", c.told)
	row("bytes of them", fmt.Sprintf("%d x %.0f KB", paperNodes, c.wire/1e3), "%.0f MB/s", c.toldBytes/1e6)
	row("CPU of them", fmt.Sprintf("%.0f x %.1f µs", c.told, float64(f.each())/1e3), "%.1f cores", c.serverCPU)
	row("events of Nodes told a second", fmt.Sprintf("%d Nodes / %.0f s x %d agents", paperNodes, paperNodeStatus.Seconds(), paperNodes), "%.0f", c.toldNodes)
	row("a tenth of the agents restarts (maxUnavailable of the DaemonSet)", fmt.Sprintf("%d x %.0f MB", paperNodes/10, c.list/1e6), "%.1f GB", c.restarted/1e9)
	row("**instead, slices of 100 addresses of one Network, watched by the agents that have it**: told a second",
		fmt.Sprintf("%.2f lives x 2 (comes, goes) x %.0f nodes that have it", c.lives, c.slicesBy), "%.0f", c.slicesTold)
	row("bytes of them", fmt.Sprintf("x %.0f (100 x address and node)", c.slice), "%.0f MB/s", c.slicesBytes/1e6)
	return b.String()
}
