package pod2

import (
	"iter"
	"slices"
)

// steady reports whether there is nothing to do and nothing to say about a replica. It must be
// available, match the spec and have its labels. Mostly nearly all replicas are steady, so a decision
// classifies each replica once, and then looks at the others only. Writes and messages must not
// be about a steady replica.
func (v *view) steady(r replica) bool {
	if !r.serves() || r.outdated != "" || r.relabelling != nil || r.gated || r.unschedulable != nil {
		return false
	}
	if len(v.sidecars) == 0 {
		return true
	}
	_, updates := v.sidecars[r.pod.UID]
	return !updates
}

// unsteady returns the replicas that are not steady, with their places. It takes v.replicas or
// v.slots. A surge replica never counts as steady.
func (v *view) unsteady(of []replica) iter.Seq2[int, replica] {
	return func(yield func(int, replica) bool) {
		for _, place := range v.watched {
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
	watched, _ := slices.BinarySearch(v.watched, len(v.replicas))
	return len(v.replicas) - watched
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
	steady := int32(v.steadyCount())
	t := tally{steady, steady, steady, steady, steady}
	for r := range v.allUnsteady() {
		t.add(r)
	}
	return t
}
