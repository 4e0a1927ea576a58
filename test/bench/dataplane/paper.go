//go:build linux

package main

import (
	"fmt"
	"math"
	"time"
)

// The assumptions about the cluster on paper.
const (
	paperNodes       = 5_000
	paperPods        = 150_000
	paperNetworkPods = 1_000 // of each Network
	paperLife        = 24 * time.Hour
	paperNodeStatus  = 5 * time.Minute // how often a kubelet writes the status of its Node
)

// Assumed has these assumptions for the page.
func (r *report) Assumed() map[string]any {
	return map[string]any{"Nodes": paperNodes, "Pods": paperPods, "NetworkPods": paperNetworkPods, "Hours": paperLife.Hours(), "Minutes": paperNodeStatus.Minutes()}
}

// calculation is a line of the costs of the cluster on paper, with its formula.
type calculation struct{ Name, How, Result string }

// Paper calculates each line from figures that were measured.
func (r *report) Paper() (lines []calculation) {
	row := func(what, how, result string, args ...any) {
		lines = append(lines, calculation{what, how, fmt.Sprintf(result, args...)})
	}
	// The cost of one more remote pod for a start, and of all.
	scaled := func(figure string) (each, all float64) {
		few := r.Median("standing", "few", figure)
		each = (r.Median("standing", "all", figure) - few) / float64(r.AtOnce())
		return each, few + paperPods*each
	}
	const podsPerNode = float64(paperPods) / paperNodes
	networks := min(podsPerNode, float64(paperPods)/paperNetworkPods)
	remote := networks * paperNetworkPods
	row("pods of a node; Networks on it", fmt.Sprintf("%d / %d; one Network for each pod, if there are enough", paperPods, paperNodes), "%.0f; %.0f", podsPerNode, networks)
	row("**an agent**: remote pods in its kernel; entries", fmt.Sprintf("%.0f x %d; three each", networks, paperNetworkPods), "%.0f; %d", remote, entriesOf(int(remote)))

	memoryPerPod, memory := scaled("peak")
	row("memory", fmt.Sprintf("%.0f MiB + %d x %.1f KiB (from the difference between the two columns above)", r.Median("standing", "few", "peak")/(1<<20), paperPods, memoryPerPod/1024), "%.0f MiB", memory/(1<<20))
	listPerPod, list := scaled("received")
	row("a start: received", fmt.Sprintf("%d x %.0f bytes", paperPods, listPerPod), "%.0f MB", list/1e6)
	_, startCPU := scaled("CPU")
	row("a start: CPU", "likewise", "%.1f s", startCPU)

	const lives = paperPods / float64(paperLife/time.Second)
	perLife, counted, onWire := r.Median("life", "events"), r.Median("life", "events that count"), r.Median("life", "received")
	events, changes, wire := lives*perLife, lives*counted, lives*onWire
	row("events a second; events that change its state", fmt.Sprintf("%.2f lives a second x %.1f; x %.1f", lives, perLife, counted), "%.1f; %.1f", events, changes)
	row("received a second", fmt.Sprintf("%.2f lives x %.0f bytes", lives, onWire), "%.0f KB", wire/1e3)

	most := r.Sizes[len(r.Sizes)-1]
	perPod := func(what string) float64 { return r.Median("entries", most, what) / float64(most) }
	read := remote * perPod("read")
	decide := remote*perPod("compared") + (paperPods-remote)*perPod("elsewhere")
	routers := (networks - 1) * (r.perNetwork("read") + r.perNetwork("decided"))
	sync := read + decide + routers
	row("a sync", fmt.Sprintf("read %.0f pods' entries (by the %d above): %.0f ms; decide on %d pods: %.0f ms; %.0f more Networks, with their routers: %.0f ms; without the copying of watched objects", remote, most, read, paperPods, decide, networks-1, routers), "%.0f ms", sync)
	row("from the notification of a change to its entry", "one sync if the agent is waiting; three if another sync just began: that one, a rest of the same length, its own", "%.0f to %.0f ms", sync, 3*sync)
	// The agent rests as long as a sync took, so it uses at most half a core.
	row("CPU", fmt.Sprintf("%.1f changes a second x a sync each; at most half a core, because it rests as long as it works", changes), "%.0f %% of a core", 100*min(0.5, changes*sync/1000))

	told, perEvent := paperNodes*events, r.Median("fanout", "an event, µs")
	row("**the API server**: watches", fmt.Sprintf("%d agents x 4 (pods, Nodes, Networks, the endpoints of the API server)", paperNodes), "%d", 4*paperNodes)
	row("events of pods sent a second", fmt.Sprintf("%d x %.1f", paperNodes, events), "%.0f", told)
	row("their bytes", fmt.Sprintf("%d x %.0f KB", paperNodes, wire/1e3), "%.0f MB/s", paperNodes*wire/1e6)
	row("their CPU", fmt.Sprintf("%.0f x %.1f µs", told, perEvent), "%.1f cores", told*perEvent/1e6)
	row("events of Nodes sent a second", fmt.Sprintf("%d Nodes / %.0f s x %d agents", paperNodes, paperNodeStatus.Seconds(), paperNodes), "%.0f", paperNodes*paperNodes/paperNodeStatus.Seconds())
	row("restart of a tenth of the agents (maxUnavailable of the DaemonSet)", fmt.Sprintf("%d x %.0f MB", paperNodes/10, list/1e6), "%.1f GB", paperNodes/10*list/1e9)

	slice := float64(len(`{"address":"192.168.100.100","node":"node-1234"},`)) * 100
	nodes := math.Min(paperNodes, paperNetworkPods)
	row("**alternative: slices of 100 addresses of one Network, watched by the agents that have it**: events sent a second",
		fmt.Sprintf("%.2f lives x 2 (created, deleted) x %.0f nodes that have it", lives, nodes), "%.0f", lives*2*nodes)
	row("their bytes", fmt.Sprintf("x %.0f (100 x address and node)", slice), "%.0f MB/s", lives*2*nodes*slice/1e6)
	return lines
}

// perNetwork is the cost of one more Network in milliseconds, from the fewest and the most
// that were measured.
func (r *report) perNetwork(what string) float64 {
	few, many := r.Networks[0], r.Networks[len(r.Networks)-1]
	return (r.Median("networks", many, what) - r.Median("networks", few, what)) / float64(many-few)
}
