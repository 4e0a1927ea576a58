//go:build linux

package main

import (
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

type metrics struct {
	entries          *k8smetrics.GaugeVec
	repairs, changes *k8smetrics.CounterVec
	programming      *k8smetrics.Histogram
	syncs            *k8smetrics.Histogram
	errors           *k8smetrics.Counter
	problems         *k8smetrics.Gauge
	ready            *k8smetrics.Gauge
}

func newMetrics() *metrics {
	counter := func(name, help string) *k8smetrics.CounterVec {
		return k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA}, []string{"kind"})
	}
	histogram := func(name, help string) *k8smetrics.Histogram {
		return k8smetrics.NewHistogram(&k8smetrics.HistogramOpts{Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA,
			Buckets: k8smetrics.ExponentialBuckets(0.001, 2, 15)}) // 1 ms to 16 s
	}
	gauge := func(name, help string) *k8smetrics.Gauge {
		return k8smetrics.NewGauge(&k8smetrics.GaugeOpts{Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA})
	}
	return &metrics{
		entries: k8smetrics.NewGaugeVec(&k8smetrics.GaugeOpts{Name: "pod2_agent_entries",
			Help: "Number of things that the kernel of the node should have, by kind: network, pod (of all nodes, on those Networks), port (of pods of this node), node (other nodes).", StabilityLevel: k8smetrics.ALPHA}, []string{"kind"}),
		repairs: counter("pod2_agent_repairs_total",
			"Steps that undid changes of others in the kernel, by kind: link, route, sysctl, table, entry (of a map of the programs)."),
		changes: counter("pod2_agent_changes_total", "Steps for changes in the cluster, by the same kinds. Entries of maps do not count."),
		programming: histogram("pod2_agent_programming_duration_seconds",
			"Time from the notification of a change of a pod, Network or node until the maps of the programs had it."),
		syncs:    histogram("pod2_agent_sync_duration_seconds", "Time to read the kernel, compare it and change it."),
		errors:   k8smetrics.NewCounter(&k8smetrics.CounterOpts{Name: "pod2_agent_sync_errors_total", Help: "Syncs that failed at least in part. The agent retries each after a second.", StabilityLevel: k8smetrics.ALPHA}),
		problems: gauge("pod2_agent_problems", "Contradictions in the agent's input, pods that it could not give a route to all of their Network, and 1 if the kernel does not refuse sockets that send past the programs. The agent's log lists them."),
		ready:    gauge("pod2_agent_ready", "1 if the kernel matched the desired state at the last comparison, as /readyz reports; else 0."),
	}
}

func (m *metrics) all() []k8smetrics.Registerable {
	return []k8smetrics.Registerable{m.entries, m.repairs, m.changes, m.programming, m.syncs, m.errors, m.problems, m.ready}
}

// count the steps that were done.
func (m *metrics) count(done dataplane.Plan, repair bool) {
	for _, kind := range dataplane.Kinds {
		m.repairs.WithLabelValues(kind).Add(0) // from 0 on, because increase() needs a first value
	}
	for _, step := range done {
		if repair {
			m.repairs.WithLabelValues(step.Kind).Inc()
		} else {
			m.changes.WithLabelValues(step.Kind).Inc()
		}
	}
}

// entriesRepaired counts entries that a full comparison found different.
func (m *metrics) entriesRepaired(changes int) {
	m.repairs.WithLabelValues("entry").Add(float64(changes))
}

// show the sizes of the desired state: maps are the numbers of entries.
func (m *metrics) show(maps map[string]int, problems int) {
	for kind, size := range maps {
		m.entries.WithLabelValues(kind).Set(float64(size))
	}
	m.problems.Set(float64(problems))
}
