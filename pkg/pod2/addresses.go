package pod2

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/ordinals"
)

// hold is a reason why a replica cannot have an address that it wants by name.
type hold struct {
	// sibling is the place of the replica that gives the address up in this update; -1
	// means none.
	sibling int
	// runs is true if the sibling has the address and is yet to be recreated.
	runs bool
	// open is true if the address is available now: it was given up and has rested.
	open bool
	// keeper names the holder that keeps the address; "" if the hold ends by itself.
	keeper string
	// until is when an address that was given up has rested; zero if an event will report
	// it.
	until time.Time
}

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
			if stuck[place] = true; v.replicas[place].runs() {
				v.keepers[place] = o.keeper
			}
		}
	}
	if v.recreate() {
		v.held = slices.ContainsFunc(v.keepers, func(keeper string) bool { return keeper != "" })
		for i := range v.replicas {
			if r := &v.replicas[i]; v.held && r.stale && !r.over {
				r.step = step{kind: stepAwait}
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
		switch r := &v.replicas[place]; {
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
	if r := &v.replicas[place]; r.stale && r.step.kind == stepRecreate && (r.runs() || v.kept[place] && v.isCurrent(place)) {
		r.step = step{kind: stepAwait, reason: "waits for a wanted address", costs: ends}
	}
}

// isCurrent reports whether the pod, started or not, matches the one that would replace
// it if it were lost.
func (v *view) isCurrent(place int) bool {
	r, current := v.replicas[place], v.revisions.current
	return r.live() && r.pod.Labels[v1.PodTemplateHashLabel] == current.hash &&
		r.pod.Annotations[v1.Pod2RequestAnnotation] == v.requestsOf(current).of(v.ordinals.At(place))
}

// runs reports whether the pod has its addresses and serves, or soon will.
func (r replica) runs() bool {
	return r.live() && r.pod.Status.Phase == corev1.PodRunning && !attachment.Gated(r.pod)
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
		missing := slices.ContainsFunc(cycle, func(place int) bool { return !v.replicas[place].runs() })
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
	idle := slices.DeleteFunc(slices.Clone(cycle), func(place int) bool { return v.replicas[place].serves() })
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

// holds returns the holds on each replica that must get the addresses of the spec: those
// to be recreated, and those that are missing or wait.
func (v *view) holds(holders []Holder) [][]hold {
	type address struct {
		network string
		address netip.Addr
	}
	held := map[address]Holder{}
	for _, h := range holders {
		a, _ := netip.ParseAddr(h.Address) // see Holders
		held[address{h.Network, a}] = h
	}
	holds := make([][]hold, min(len(v.replicas), v.requests.wanted)) // later ones want no address by name
	for place := range holds {
		r := v.replicas[place]
		moves := r.stale && r.step.kind == stepRecreate
		comes := v.revisionFor(place) == v.revisions.update && (r.pod == nil || r.own && (r.terminating || attachment.Gated(r.pod)))
		if !moves && !comes {
			continue
		}
		for _, request := range v.requests.list(v.ordinals.At(place)) {
			if h, ok := held[address{request.Network, request.Address}]; ok {
				if o := v.hold(place, request, h); o != nil {
					holds[place] = append(holds[place], *o)
				}
			}
		}
	}
	return holds
}

// hold returns the hold that a holder of an address has on a replica, nil if there is
// none. The first match wins:
//
//	the replica itself holds it                            none
//	another owner has it, or keeps it                      kept
//	another owner kept it for a replica that no longer     ends by itself
//	exists
//	an owned pod without a place has or had it             ends by itself
//	a replica keeps it: it changes to no other address,    kept
//	or it comes after this one and all are deleted at once
//	it rests, or its pod does not run                       ends by itself
//	the replica runs, and is to be recreated               the replica gives it up
//	the replica runs, and is frozen                        kept
//	reserved: the replica waits for another address        the replica has given it up, and it
//	                                                       is available once it has rested
func (v *view) hold(place int, wanted attachment.Request, h Holder) *hold {
	kept := &hold{sibling: -1, keeper: fmt.Sprintf("%s is not updated: it wants address %s of Network %s, but %s", v.name(place), h.Address, h.Network, h.text())}
	ours := h.Owner == v1.AddressOwner{Kind: pod2Kind.Kind, Name: v.pod2.Name}
	if h.Pod == v.name(place) && (ours || h.State == v1.AddressResting) {
		return nil
	}
	if !ours && !h.ScaledAway {
		return kept
	}
	ordinal, ok := ordinals.Parse(v.pod2.Name, h.Pod)
	sibling, placed := 0, false
	if ok {
		sibling, placed = v.ordinals.Place(ordinal)
	}
	rests := &hold{sibling: -1}
	if h.State == v1.AddressReserved {
		rests.until = h.Since.Add(v.reuseDelay(h.Network))
		rests.open = !v.now.Before(rests.until)
	}
	switch r := v.replicaAt(sibling, placed); {
	case !ours || r == nil || h.State == v1.AddressResting:
		return rests
	case !v.givesUp(sibling, wanted) || v.recreate() && v.ordered() && sibling > place:
		return kept
	case h.State == v1.AddressBound && (r.pod == nil || r.pod.UID != h.PodUID || !r.runs()):
		return &hold{sibling: sibling}
	case h.State == v1.AddressBound && r.stale:
		return &hold{sibling: sibling, runs: true}
	case h.State == v1.AddressBound:
		return kept
	case r.own && attachment.Gated(r.pod):
		rests.sibling = sibling
		return rests
	}
	return &hold{sibling: sibling}
}

// replicaAt returns nil for a place that is not a replica's.
func (v *view) replicaAt(place int, placed bool) *replica {
	if !placed || place >= len(v.replicas) {
		return nil
	}
	return &v.replicas[place]
}

// givesUp reports whether the spec gives the replica another address than the wanted one.
// A replica that may have any address keeps the one it had.
func (v *view) givesUp(place int, wanted attachment.Request) bool {
	return v.revisionFor(place) == v.revisions.update &&
		slices.ContainsFunc(v.requests.list(v.ordinals.At(place)), func(r attachment.Request) bool {
			return r.Network == wanted.Network && r.Address.IsValid() && r.Address != wanted.Address
		})
}

func (v *view) reuseDelay(name string) time.Duration {
	for _, n := range v.networks {
		if n.Name == name {
			return network.ReuseDelay(n)
		}
	}
	return 0
}

func (h Holder) text() string {
	whose := "pod " + h.Pod
	if h.Owner.Name != "" {
		whose += fmt.Sprintf(" (%s %s)", h.Owner.Kind, h.Owner.Name)
	}
	switch h.State {
	case v1.AddressReserved:
		return "it is reserved for " + whose
	case v1.AddressResting:
		return "it has been resting since " + whose + " terminated"
	}
	return whose + " holds it"
}
