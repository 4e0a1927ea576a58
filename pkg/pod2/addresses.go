package pod2

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// holdForAddresses makes running replicas wait if they would be recreated for an address
// that they cannot have yet. The first match wins:
//
//	another pod, a reservation, a rest or a replica     the replica runs on, and the
//	that does not change keeps the address              condition names the keeper
//	a replica of this update has the address, and       it runs on as well
//	must itself wait for such a keeper
//	a replica of this update has it, and can be         it waits for that replica: a chain is
//	recreated                                           followed from its free end
//	the replicas want each other's                      see breakCycles
//
// A replica that cannot have its wanted address comes back with its previous one if it is
// lost.
//
// A Recreate deletes all replicas at once, but none while an address that a running
// replica wants is kept. Until then, lost replicas come back unchanged.
func (v *view) holdForAddresses(holders []Holder) {
	if v.requests.wanted == 0 {
		return
	}
	holds := v.holds(holders)
	v.keepers = make([]string, len(holds))
	stuck := make([]bool, len(holds))
	for place, all := range holds {
		for _, o := range all {
			if o.keeper == "" || stuck[place] {
				continue
			}
			if stuck[place] = true; v.at(place).runs() {
				v.keepers[place] = o.keeper
			}
		}
	}
	if v.recreate() {
		v.held = slices.ContainsFunc(v.keepers, func(keeper string) bool { return keeper != "" })
		for i := range v.found {
			if r := &v.found[i]; v.held && r.stale && !r.over {
				r.step = &step{kind: stepAwait}
			}
		}
		return
	}
	spread(stuck, holds)
	breakers := v.breakCycles(stuck, holds)
	spread(stuck, holds)
	v.kept = map[int]bool{}
	for place, all := range holds {
		v.kept[place] = stuck[place]
		blocked := slices.ContainsFunc(all, func(o hold) bool { return !o.open })
		switch r := v.at(place); {
		case breakers[place] && r.serves():
			r.step.needs = 2
		case breakers[place]:
		case blocked:
			v.await(place, !stuck[place])
		}
		for _, o := range all {
			if !o.until.IsZero() && (v.addressAt.IsZero() || o.until.Before(v.addressAt)) {
				v.addressAt = o.until
			}
		}
	}
}

// await lets a replica run on, or start if it came back unchanged. If the wait will end,
// the step costs something, so the surge replica stays.
func (v *view) await(place int, ends bool) {
	if r := v.at(place); r.stale && r.step.kind == stepRecreate && (r.runs() || v.kept[place] && v.isCurrent(place)) {
		r.step = &step{kind: stepAwait, reason: "waits for a wanted address", costs: ends}
	}
}

// isCurrent reports whether the pod, started or not, matches the one that would replace
// it if it were lost.
func (v *view) isCurrent(place int) bool {
	r, current := v.at(place), v.revisions.current
	return r.live() && r.hash == current.hash &&
		r.request == v.requestsOf(current).of(v.ordinals.At(place))
}

// runs reports whether the pod has its addresses and serves, or soon will.
func (r replica) runs() bool {
	return r.live() && r.pod.Status.Phase == corev1.PodRunning && !r.gated
}

// spread marks the replicas that wait for a stuck one as stuck.
func spread(stuck []bool, holds [][]hold) {
	for changed := true; changed; {
		changed = false
		for place, all := range holds {
			if !stuck[place] && slices.ContainsFunc(all, func(o hold) bool { return o.runs && stuck[o.sibling] }) {
				stuck[place], changed = true, true
			}
		}
	}
}

// breakCycles returns the replicas to recreate first among those that want each other's
// addresses. In each cycle that is the last replica that is not available, else the last
// one. This needs two replicas that may be missing at once: one is missing until all
// others of the cycle have moved, one after the other. If two may not be missing, the
// whole cycle is stuck, and the condition says so. A cycle in which a replica is already
// missing is broken.
func (v *view) breakCycles(stuck []bool, holds [][]hold) map[int]bool {
	breakers := map[int]bool{}
	done := slices.Clone(stuck)
	for {
		resolve(done, holds)
		first := slices.Index(done, false)
		if first < 0 {
			return breakers
		}
		cycle := cycleFrom(first, done, holds)
		for _, place := range cycle {
			done[place] = true
		}
		missing := slices.ContainsFunc(cycle, func(place int) bool { return !v.at(place).runs() })
		switch {
		case v.maxUnavailable()+v.maxSurge() < 2:
			for _, place := range cycle {
				stuck[place] = true
			}
			v.cycles = append(v.cycles, v.cycleText(cycle))
		case !missing:
			breakers[v.breaker(cycle)] = true
		}
	}
}

func (v *view) breaker(cycle []int) int {
	idle := slices.DeleteFunc(slices.Clone(cycle), func(place int) bool { return v.at(place).serves() })
	if len(idle) > 0 {
		return slices.Max(idle)
	}
	return slices.Max(cycle)
}

// resolve marks a replica as done if each replica that it waits for is done, until no
// more can be marked. The others are part of a cycle, or wait for one.
func resolve(done []bool, holds [][]hold) {
	for changed := true; changed; {
		changed = false
		for place, all := range holds {
			if !done[place] && !slices.ContainsFunc(all, func(o hold) bool { return o.sibling >= 0 && !done[o.sibling] }) {
				done[place], changed = true, true
			}
		}
	}
}

// cycleFrom follows the chain of waiting replicas until one of them repeats.
func cycleFrom(place int, done []bool, holds [][]hold) []int {
	var path []int
	for {
		if i := slices.Index(path, place); i >= 0 {
			return path[i:]
		}
		path = append(path, place)
		next := slices.IndexFunc(holds[place], func(o hold) bool { return o.sibling >= 0 && !done[o.sibling] })
		place = holds[place][next].sibling
	}
}

func (v *view) cycleText(cycle []int) string {
	cycle = slices.Sorted(slices.Values(cycle))
	return names(len(cycle), func(i int) string { return v.name(cycle[i]) }) +
		" want each other's addresses, so two of them must be replaced at once: set updateStrategy.rollingUpdate.maxUnavailable to at least 2"
}
