package main

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
)

// target is what the controller is held to, all of one run. reason is why it may be
// missed, for the page to tell if it is.
type target struct {
	what       string
	value, max float64
	format     string
	reason     string
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
)

// whyLong, of a run of three rounds and two sizes of eight contenders.
const whyLong = "that all are gone, and the cluster quiet, is waited for after each lap: with two cores for the control plane and everybody else that takes as long as bringing them up"

// whyHeap tells what a pod in the cache is at least, as Go lays it out.
func whyHeap() string {
	return fmt.Sprintf("the cache has corev1.Pods: an empty one is %d bytes, a container in its spec %d and in its status %d, a condition %d; then labels, "+
		"annotations and the strings themselves, and its share of the ledger, its names and the indexes. A type of our own would be smaller, and no lister has it",
		unsafe.Sizeof(corev1.Pod{}), unsafe.Sizeof(corev1.Container{}), unsafe.Sizeof(corev1.ContainerStatus{}), unsafe.Sizeof(corev1.PodCondition{}))
}

func (r *results) targets() []target {
	n := r.sizes[len(r.sizes)-1]
	ratio := func(a, b figure) float64 { return a.median / b.median }
	perPod := func(contender string, of func(lap) float64) float64 {
		return r.figure(contender, n, of).median / float64(n)
	}
	created := func(l lap) float64 { return l.created.total() }
	of := func(contender string, what func(lap) time.Duration) figure { return r.seconds(contender, n, what) }
	targets := []target{
		{"Pod2: all exist, by Deployment's time", ratio(of(pod2, exist), of(deployment, exist)), 1, "%.2f", whyExist},
		{"Pod2: all Ready, by Deployment's time", ratio(of(pod2, ready), of(deployment, ready)), 0.85, "%.2f", whyReady},
		{"Pod2: all Ready, by the raw client's time", ratio(of(pod2, ready), of(raw, ready)), 1.15, "%.2f", whyReady},
		{"Pod2 on one Network: all Ready, by Deployment's time", ratio(of(pod2OnOne, ready), of(deployment, ready)), 1.25, "%.2f", whyBound},
		{"Pod2 on one Network: all Ready, by the time of the raw client with the same two writes", ratio(of(pod2OnOne, ready), of(rawTwice, ready)), 1.1, "%.2f", whyBound},
		{"Pod2 on one Network: API writes for each pod created", perPod(pod2OnOne, created), 2.1, "%.3f", ""},
		{"Pod2 on one Network: API writes for each pod deleted", perPod(pod2OnOne, deleted), 1.1, "%.3f", ""},
		{"Pod2: replacement p99, by the ReplicaSet controller's", r.replaced(pod2, n, 99) / r.replaced(deployment, n, 99), 1, "%.2f", whyReplaced},
		{"Pod2 on one Network: replacement p99, by the ReplicaSet controller's", r.replaced(pod2OnOne, n, 99) / r.replaced(deployment, n, 99), 1, "%.2f", whyReplaced},
		{"Pod2: API writes for each pod updated in place", perPod(pod2, updated), 1.2, "%.3f", ""},
	}
	if r.took > 0 {
		targets = append(targets, target{"the whole run, minutes", r.took.Minutes(), 30, "%.0f", whyLong})
	}
	standing := func(value float64) float64 {
		if r.standing.n == 0 {
			return math.NaN()
		}
		return value
	}
	s := r.standing
	targets = append(targets,
		target{"heap for each pod watched, KiB", standing((s.live - s.base) / float64(s.n) / 1024), 4, "%.2f", whyHeap()},
		target{"idle: % of a core", standing(100 * s.cpu.Seconds() / s.idle.Seconds()), 1, "%.2f", ""},
		target{"idle: writes", standing(s.writes), 0, "%.0f", ""},
		target{"start with all pods standing: writes", standing(s.startWrites), 0, "%.0f", ""},
	)
	for _, bound := range []int{1000, 65000} {
		cost, measured := r.sync[bound]
		if !measured {
			cost = syncCost{math.NaN(), math.NaN()}
		}
		on := fmt.Sprintf("one pod waits on a Network with %d bound addresses: one sync, ", bound)
		targets = append(targets, target{on + "ms", cost.milliseconds, 2, "%.2f", ""}, target{on + "KiB allocated", cost.kib, 200, "%.0f", ""})
	}
	return targets
}
