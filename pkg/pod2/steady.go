package pod2

import (
	"iter"
	"slices"
)

// isSteady reports whether a replica is available, matches the spec, has its labels, and gets no image
// of a Sidecar now. No decision changes such a pod, and no message names it. Most replicas are steady
// most of the time, so a decision looks at each replica once, and then at the others only. Decisions
// about PVCs and records of failures concern steady replicas too.
func (v *view) isSteady(r replica) bool {
	if !r.serves() || r.outdated != "" || r.relabelling != nil || r.gated || r.unschedulable != nil {
		return false
	}
	if len(v.sidecars) == 0 {
		return true // without a look at the pod, which is slower to read than the fact
	}
	_, updates := v.sidecars[r.pod.UID]
	return !updates
}

// unsteady returns the replicas that are not steady, with their places. It takes v.replicas or
// v.slots. A surge replica never counts as steady.
func (v *view) unsteady(of []replica) iter.Seq2[int, replica] {
	return func(yield func(int, replica) bool) {
		for _, place := range v.unsteadyPlaces {
			if place >= len(of) || !yield(place, of[place]) {
				return
			}
		}
	}
}

// allUnsteady returns every pod but the steady replicas: the owned ones, and those of other owners in
// this Pod2's places. An outdated surge replica is also in the surplus, and counts there.
func (v *view) allUnsteady() iter.Seq[replica] {
	return func(yield func(replica) bool) {
		for _, r := range v.unsteady(v.replicas) {
			if !yield(r) {
				return
			}
		}
		for _, r := range v.surge {
			if !r.stale && !yield(r) {
				return
			}
		}
		for _, r := range v.surplus {
			if !yield(r) {
				return
			}
		}
	}
}

func (v *view) steadyCount() int {
	unsteady, _ := slices.BinarySearch(v.unsteadyPlaces, len(v.replicas))
	return len(v.replicas) - unsteady
}

// tally counts pods: the owned ones, and how many of these are live, ready, available and updated.
type tally struct{ owned, live, ready, available, updated int32 }

func (t *tally) add(r replica) {
	if r.own {
		t.owned++
	}
	if !r.live() {
		return
	}
	t.live++
	if r.ready {
		t.ready++
	}
	if r.available {
		t.available++
	}
	if r.outdated == "" {
		t.updated++
	}
}

// tally of all pods. Each steady replica counts in all numbers.
func (v *view) tally() tally {
	n := int32(v.steadyCount())
	t := tally{n, n, n, n, n}
	for r := range v.allUnsteady() {
		t.add(r)
	}
	return t
}
