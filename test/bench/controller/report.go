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

// report is the data for page.md.
type report struct {
	options
	measure.Results
	Machine    string
	Kubernetes string // version of the control plane
	Took       time.Duration
	Tables     string // of benchstat
	Peers      []peer
	laps       []*lap
}

// N is the largest number of pods that all contenders have.
func (r *report) N() int { return r.sizes[len(r.sizes)-1] }

// Large is the largest number of pods that one contender has; 0 if there is none.
func (r *report) Large() int {
	if len(r.larges) == 0 {
		return 0
	}
	return slices.Max(r.larges)
}

// Nodes of the cluster.
func (r *report) Nodes() int { return max(r.Large(), r.N())/measure.PodsPerNode + 3 }

// Quiet is how long the cluster is without writes before a lap.
func (r *report) Quiet() time.Duration { return quiet }

// Methods of HTTP that write.
func (r *report) Methods() []string { return methods }

// Components that share the cores.
func (r *report) Components() []string { return components }

// Until has the states of pods until which the CPU seconds of components are measured.
func (r *report) Until() []string { return []string{"Ready", "gone"} }

// row of a table: the figures of a contender with so many pods.
type row struct {
	Contender string
	N         int
}

// Rows of all measured contenders.
func (r *report) Rows() (rows []row) {
	for _, n := range append(slices.Clone(r.sizes), r.larges...) {
		for _, c := range contenders() {
			if r.Count(c.name, n, "ready") > 0 {
				rows = append(rows, row{c.name, n})
			}
		}
	}
	return rows
}

// Allocators that were measured.
func (r *report) Allocators() (names []string) {
	all := []string{pod2All, pod2Each}
	for _, a := range allocators() {
		all = append(all, a.name)
	}
	for _, name := range all {
		if r.Count("addresses", name, "per second") > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Call has p50 and p99 of an allocator's calls over all rounds.
func (r *report) Call(allocator string) string {
	if r.Count("addresses", allocator, "call, ms") == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f, %.0f", r.Percentile(50, "addresses", allocator, "call, ms"), r.Percentile(99, "addresses", allocator, "call, ms"))
}

// Failures of an allocator's calls, in all rounds.
func (r *report) Failures(allocator string) string {
	failures := r.Results[fmt.Sprint("addresses ", allocator, " failures")]
	if len(failures) == 0 {
		return "-"
	}
	all := 0.0
	for _, of := range failures {
		all += of
	}
	return fmt.Sprintf("%.0f of %.0f", all, all+float64(len(failures)))
}

// Replaced has p50 and p99 over all rounds.
func (r *report) Replaced(contender string, n int) string {
	if r.Count(contender, n, "replaced, ms") == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f, %.1f", r.Percentile(50, contender, n, "replaced, ms"), r.Percentile(99, contender, n, "replaced, ms"))
}

// Unexplained is the maximum over all laps: by how many writes the counts of client and API
// server differ.
func (r *report) Unexplained() (most float64) {
	for _, l := range r.laps {
		most = max(most, l.unexplained)
	}
	return most
}

// spent is a table of a program's CPU seconds, with the contenders that it was profiled
// with.
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

// Plots are the numbers of pods that have a plot.
func (r *report) Plots() (sizes []int) {
	for _, row := range r.Rows() {
		sizes = append(sizes, row.N)
	}
	return slices.Compact(sizes)
}

// middle returns the laps to draw: for each contender, the lap nearest to the median.
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

// The reasons that profiles give for targets that are sometimes missed. The page has the
// profiles.
const (
	whyExist = "a sync sends a limited number of creates at once, to leave CPU for the scheduler and the kubelets; kube-controller-manager sends more"
	whyReady = "the cores are busy, mostly with kube-apiserver (see the CPU seconds below). In addition to the raw client's work there are " +
		"a controller, its watch of the pods, and their owner"
	whyReplaced = "the time includes the deletion, and the controller reads the owner live before each create, so it creates no pod for an owner that is gone"
	whyLater    = whyReplaced + ". Most of the slowest wait for the API server, which handles writes of AddressBlocks and EndpointSlices on the same two cores"
	whyCPU      = "most of it is not in syncs: the controller decodes and indexes four or more versions of each pod, and collects that garbage. A slow core takes longer for all of it"
	whySize     = "the work for each pod is the same, but the garbage collector also marks the pods that exist, and the last of 10,000 are created beside four times as many as the last of 2,500"
	whyAge      = "the time has three parts: half a second or more in the work queue, behind pods that wait for their addresses; half a second of creations, or longer until the last one is answered; and the write itself"
	// whyLong holds for three rounds and two sizes of eight contenders.
	whyLong = "after each lap the run waits until all pods are gone and the cluster is quiet. With two cores for all programs, that takes as long as creating the pods"
)

// whyBound compares the raw client's two writes with a Deployment's one. A controller that makes the
// same writes has work of its own in addition.
func (r *report) whyBound() string {
	return fmt.Sprintf("the protocol needs two writes for each pod. The raw client with the same two writes, which clears managedFields too, takes %.2f of a Deployment's time at equal speed, without a controller. "+
		"In addition, the controller watches the pods, policies check the annotations of both writes, and AddressBlocks with up to 256 entries, AddressSlices, EndpointSlices and statuses are written",
		r.evenly(rawTwice, deployment, "ready"))
}

// whyGone has the part that does not come from Networks.
func (r *report) whyGone() string {
	return fmt.Sprintf("the cores are busy until all pods are gone, mostly with kube-apiserver. A live read of each pod precedes the write that frees its address, "+
		"and the API server decodes and validates all 256 entries of an AddressBlock for each write. A Pod2 without Networks takes %.2f of a Deployment's time at equal speed",
		r.evenly(pod2, deployment, "gone"))
}

// others is the number of writes for each of n pods created on one Network that are neither of pods and AddressBlocks, nor of AddressSlices.
func (r *report) others(n int) float64 {
	of := func(part string) float64 { return r.Median(pod2OnOne, n, "created", part) }
	return of("writes") - of("protocol") - of("slices")
}

// whyOthers has the figure for most pods, because these writes depend on time.
func (r *report) whyOthers() string {
	why := "statuses and DNS names are written about once a second, and events with them. So the number of these writes depends on the time that the machine needs"
	if n := r.Large(); n > 0 {
		why += fmt.Sprintf(". With %d pods there are %.3f", n, r.others(n))
	}
	return why
}

// whyHeap computes the minimum size of a pod in the cache from Go's memory layout.
func whyHeap() string {
	return fmt.Sprintf("the cache holds corev1.Pods. An empty one has %d bytes, a container in its spec %d and in its status %d, a condition %d. Labels, "+
		"annotations, all strings, and a share of AddressBlocks, DNS names and indexes come on top. A type of its own would be smaller, but no lister returns it",
		unsafe.Sizeof(corev1.Pod{}), unsafe.Sizeof(corev1.Container{}), unsafe.Sizeof(corev1.ContainerStatus{}), unsafe.Sizeof(corev1.PodCondition{}))
}

// evenly is the ratio of two contenders' times, at equal speed of the machine.
func (r *report) evenly(contender, other, what string) float64 {
	return r.Median(contender, r.N(), what, even) / r.Median(other, r.N(), what, even)
}

// Targets of the controller, all in one run.
func (r *report) Targets() (targets []measure.Target) {
	target := func(what string, value, bound float64, format, why string) {
		targets = append(targets, measure.Target{Name: what, Measured: measure.FigureOf([]float64{value}), Bound: bound, Format: format, Why: why})
	}
	of := func(contender string, what ...any) float64 {
		return r.Median(append([]any{contender, r.N()}, what...)...)
	}
	ratio := func(name, contender, other, what string, bound float64, why string) {
		target(name, r.evenly(contender, other, what), bound, "%.2f", why)
		targets[len(targets)-1].Plain = of(contender, what) / of(other, what)
	}
	p99 := func(contender string) float64 { return r.Percentile(99, contender, r.N(), "replaced, ms") }

	target("Pod2: all exist, relative to Deployment", of(pod2, "exist")/of(deployment, "exist"), 1, "%.2f", whyExist)
	ratio("Pod2: all Ready, relative to Deployment", pod2, deployment, "ready", 0.85, whyReady)
	ratio("Pod2: all Ready, relative to the raw client", pod2, raw, "ready", 1.12, whyReady)
	ratio("Pod2 on one Network: all Ready, relative to Deployment", pod2OnOne, deployment, "ready", 1.15, r.whyBound())
	ratio("Pod2 on one Network: all Ready, relative to the raw client with the same two writes", pod2OnOne, rawTwice, "ready", 1.2, r.whyBound())
	ratio("Pod2 on one Network: all gone, relative to Deployment", pod2OnOne, deployment, "gone", 1.15, r.whyGone())
	target("Pod2 on one Network: writes of pods and AddressBlocks for each pod created", of(pod2OnOne, "created", "protocol"), 2.05, "%.3f", "")
	target("Pod2 on one Network: writes of AddressSlices for each pod created", of(pod2OnOne, "created", "slices"), 0.05, "%.3f", "")
	target("Pod2 on one Network: writes of statuses, DNS names and events for each pod created", r.others(r.N()), 0.07, "%.3f", r.whyOthers())
	target("Pod2: replacement p99, relative to the ReplicaSet controller", p99(pod2)/p99(deployment), 1, "%.2f", whyReplaced)
	target("Pod2 on one Network: replacement p99, relative to the ReplicaSet controller", p99(pod2OnOne)/p99(deployment), 1.3, "%.2f", whyLater)
	target("Pod2: API writes for each pod updated in place", of(pod2, "updated", "writes"), 1.2, "%.3f", "")
	perPod := 1000 / float64(r.N())
	target("Pod2 on one Network: controller CPU until Ready, ms for each pod", of(pod2OnOne, "creator", "CPU")*perPod, 1.5, "%.2f", whyCPU)
	target("Pod2: controller CPU of an update in place, ms for each pod", of(pod2, "updated", "CPU")*perPod, 3, "%.2f", "")
	target("pods that come one by one, sixteen at once: writes of AddressBlocks for each address", r.Median("addresses", pod2Each, "blocks"), 0.15, "%.3f", "")
	if len(r.larges) > 1 {
		cpu := func(more ...any) float64 {
			of := func(n int) float64 { return r.Median(append([]any{pod2OnOne, n, "creator", "CPU"}, more...)...) }
			return of(r.Large()) / of(r.larges[0])
		}
		target(fmt.Sprintf("Pod2 on one Network: controller CPU until Ready, %d pods relative to %d", r.Large(), r.larges[0]), cpu(even), 4.4, "%.2f", whyCPU)
		targets[len(targets)-1].Plain = cpu()
		target(fmt.Sprintf("Pod2 on one Network, %d pods scaled to zero: API writes for each pod deleted", r.larges[0]), r.Median(pod2OnOne, r.larges[0], "deleted", "writes"), 1.1, "%.3f", "")
	}
	if n := r.Large(); n > 0 {
		target(fmt.Sprintf("Pod2 on one Network, %d pods: age of the status until all are Ready, s", n), r.Median(pod2OnOne, n, "status age"), 2, "%.1f", whyAge)
		target(fmt.Sprintf("Pod2 on one Network, %d pods: API writes, without AddressSlices, for each pod that the garbage collector deletes with the Pod2", n), r.Median(pod2OnOne, n, "collected", "writes")-r.Median(pod2OnOne, n, "collected", "slices"), 0.1, "%.3f", "")
		target(fmt.Sprintf("Pod2 on one Network, %d pods: API writes of AddressHistories for each pod created and deleted", n), r.Median(pod2OnOne, n, "history"), 0.02, "%.4f", "")
	}
	if r.Took > 0 {
		target("the whole run, minutes", r.Took.Minutes(), 30, "%.0f", whyLong)
	}
	target("heap for each pod watched, KiB", r.Median("heap", "a pod"), 4, "%.2f", whyHeap())
	target("idle: % of a core", 100*r.Median("standing", "CPU")/r.Idle.Seconds(), 1, "%.2f", "")
	target("idle: writes, without late ones of AddressHistories", r.Median("standing", "writes"), 0, "%.0f", "")
	target("start with all pods standing: writes", r.Median("standing", "writes of a start"), 0, "%.0f", "")
	for _, bound := range []int{1000, 65000} {
		on := fmt.Sprintf("one pod waits on a Network with %d bound addresses: one sync, ", bound)
		target(on+"ms", r.Median("sync", bound, "ms"), 2, "%.2f", "")
		target(on+"KiB allocated", r.Median("sync", bound, "KiB"), 200, "%.0f", "")
	}
	target("one of 10000 available replicas changes: one sync, ms", r.Median("sync of replicas", 10000, "ms"), 1, "%.2f", "")
	target("one of 10000 available replicas changes: one sync, KiB allocated", r.Median("sync of replicas", 10000, "KiB"), 100, "%.0f", "")
	target("one of 10000 available replicas with a PVC each changes: one sync, ms", r.Median("sync of replicas with PVCs", 10000, "ms"), 1, "%.2f", "")
	return targets
}
