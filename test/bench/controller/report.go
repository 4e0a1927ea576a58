package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/test/bench/measure"
)

// report is what page.md is written from.
type report struct {
	options
	measure.Results
	Machine string
	Took    time.Duration
	Tables  string // benchstat's
	laps    []*lap
}

// N is the largest number of pods that all contenders have.
func (r *report) N() int { return r.sizes[len(r.sizes)-1] }

// Nodes of the cluster.
func (r *report) Nodes() int { return max(r.Large, r.N())/podsPerNode + 3 }

// Quiet is how long nobody writes before a lap.
func (r *report) Quiet() time.Duration { return quiet }

// Methods that write.
func (r *report) Methods() []string { return methods }

// Components that share the cores.
func (r *report) Components() []string { return components }

// row of a table: what a contender did with so many pods.
type row struct {
	Contender string
	N         int
}

// Rows of what was measured.
func (r *report) Rows() (rows []row) {
	for _, n := range append(slices.Clone(r.sizes), r.Large) {
		for _, c := range contenders() {
			if r.Count(c.name, n, "ready") > 0 {
				rows = append(rows, row{c.name, n})
			}
		}
	}
	return rows
}

// Replaced are p50 and p99 of all rounds.
func (r *report) Replaced(contender string, n int) string {
	if r.Count(contender, n, "replaced, ms") == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f, %.1f", r.Percentile(50, contender, n, "replaced, ms"), r.Percentile(99, contender, n, "replaced, ms"))
}

// Unexplained is the most writes of a lap that client and API server counted differently.
func (r *report) Unexplained() (most float64) {
	for _, l := range r.laps {
		most = max(most, l.unexplained)
	}
	return most
}

// spent is a table of the CPU seconds of a program, with the contenders that it was
// profiled with.
type spent struct {
	Program           string
	Areas, Contenders []string
}

// Profiles of programs.
func (r *report) Profiles() (tables []spent) {
	for _, t := range []spent{{Program: apiServer, Areas: names(serverAreas)}, {Program: pod2Controller, Areas: names(controllerAreas)}} {
		for _, c := range contenders() {
			if r.Count("profile", t.Program, c.name, elsewhere) > 0 {
				t.Contenders = append(t.Contenders, c.name)
			}
		}
		if len(t.Contenders) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// HeapAreas of the controller.
func (r *report) HeapAreas() []string { return names(heapAreas) }

// Plots are the numbers of pods to draw.
func (r *report) Plots() (sizes []int) {
	for _, row := range r.Rows() {
		sizes = append(sizes, row.N)
	}
	return slices.Compact(sizes)
}

// middle are the laps to draw: of each contender the one of the median.
func (r *report) middle(n int) (middle []*lap) {
	for _, row := range r.Rows() {
		if row.N != n {
			continue
		}
		median := r.Median(row.Contender, n, "ready")
		laps := slices.DeleteFunc(slices.Clone(r.laps), func(l *lap) bool { return l.contender.name != row.Contender || l.n != n })
		middle = append(middle, slices.MinFunc(laps, func(a, b *lap) int {
			return cmp.Compare(math.Abs(a.ready.Seconds()-median), math.Abs(b.ready.Seconds()-median))
		}))
	}
	return middle
}

// What profiles say of targets that are not always reached; the page has the one of the
// processes.
const (
	whyExist = "a sync has a bounded number of creates under way, for the scheduler and the kubelets to have their share of the cores; kube-controller-manager has more"
	whyReady = "the cores are busy, most of all with kube-apiserver, see the CPU seconds and profiles below: what we add to the raw client's are a " +
		"controller, its watch of the pods, and their owner"
	whyBound = "as for Pod2, and: the second write is a PATCH with the pod's UID, since our cache has no whole pod; it is merged. The " +
		"raw client sends back the pod that its create answered, with annotations that concern no policy"
	whyReplaced = "a live read of the owner comes before each create, so that none is made for an owner that is gone; and a sync of the same " +
		"Pod2 that is under way, for the status of the pod before, is waited for"
	// whyLong, of a run of three rounds and two sizes of eight contenders.
	whyLong = "that all are gone, and the cluster quiet, is waited for after each lap: with two cores for the control plane and everybody else that takes as long as bringing them up"
)

// whyHeap tells what a pod in the cache is at least, as Go lays it out.
func whyHeap() string {
	return fmt.Sprintf("the cache has corev1.Pods: an empty one is %d bytes, a container in its spec %d and in its status %d, a condition %d; then labels, "+
		"annotations and the strings themselves, and its share of the ledger, its names and the indexes. A type of our own would be smaller, and no lister has it",
		unsafe.Sizeof(corev1.Pod{}), unsafe.Sizeof(corev1.Container{}), unsafe.Sizeof(corev1.ContainerStatus{}), unsafe.Sizeof(corev1.PodCondition{}))
}

// Targets that the controller is held to, all of one run.
func (r *report) Targets() (targets []measure.Target) {
	target := func(what string, value, bound float64, format, why string) {
		targets = append(targets, measure.Target{What: what, Measured: measure.FigureOf([]float64{value}), Bound: bound, Format: format, Why: why})
	}
	of := func(contender string, what ...any) float64 {
		return r.Median(append([]any{contender, r.N()}, what...)...)
	}
	p99 := func(contender string) float64 { return r.Percentile(99, contender, r.N(), "replaced, ms") }

	target("Pod2: all exist, by Deployment's time", of(pod2, "exist")/of(deployment, "exist"), 1, "%.2f", whyExist)
	target("Pod2: all Ready, by Deployment's time", of(pod2, "ready")/of(deployment, "ready"), 0.85, "%.2f", whyReady)
	target("Pod2: all Ready, by the raw client's time", of(pod2, "ready")/of(raw, "ready"), 1.15, "%.2f", whyReady)
	target("Pod2 on one Network: all Ready, by Deployment's time", of(pod2OnOne, "ready")/of(deployment, "ready"), 1.25, "%.2f", whyBound)
	target("Pod2 on one Network: all Ready, by the time of the raw client with the same two writes", of(pod2OnOne, "ready")/of(rawTwice, "ready"), 1.1, "%.2f", whyBound)
	target("Pod2 on one Network: API writes for each pod created", of(pod2OnOne, "created", "writes"), 2.1, "%.3f", "")
	target("Pod2 on one Network: API writes for each pod deleted", of(pod2OnOne, "deleted", "writes"), 1.1, "%.3f", "")
	target("Pod2: replacement p99, by the ReplicaSet controller's", p99(pod2)/p99(deployment), 1, "%.2f", whyReplaced)
	target("Pod2 on one Network: replacement p99, by the ReplicaSet controller's", p99(pod2OnOne)/p99(deployment), 1, "%.2f", whyReplaced)
	target("Pod2: API writes for each pod updated in place", of(pod2, "updated", "writes"), 1.2, "%.3f", "")
	if r.Took > 0 {
		target("the whole run, minutes", r.Took.Minutes(), 30, "%.0f", whyLong)
	}
	target("heap for each pod watched, KiB", r.Median("heap", "a pod"), 4, "%.2f", whyHeap())
	target("idle: % of a core", 100*r.Median("standing", "CPU")/r.Idle.Seconds(), 1, "%.2f", "")
	target("idle: writes", r.Median("standing", "writes"), 0, "%.0f", "")
	target("start with all pods standing: writes", r.Median("standing", "writes of a start"), 0, "%.0f", "")
	for _, bound := range []int{1000, 65000} {
		on := fmt.Sprintf("one pod waits on a Network with %d bound addresses: one sync, ", bound)
		target(on+"ms", r.Median("sync", bound, "ms"), 2, "%.2f", "")
		target(on+"KiB allocated", r.Median("sync", bound, "KiB"), 200, "%.0f", "")
	}
	return targets
}
