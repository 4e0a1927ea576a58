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

// hold is what keeps a replica from an address that it wants by name.
type hold struct {
	// sibling is the place of the replica that gives the address up in this update; -1:
	// none does.
	sibling int
	// runs says that the sibling has the address and has yet to be recreated.
	runs bool
	// open says that nothing is in the way any more: the address was given up and has rested.
	open bool
	// keeper says who keeps the address, "" where the hold ends by itself.
	keeper string
	// until is when an address that was given up has rested; zero: an event tells.
	until time.Time
}

// holdForAddresses has running replicas wait that would be recreated for an address that
// they cannot have yet; first match wins:
//
//	somebody keeps it: another pod, a reservation,      the replica runs on, and the
//	a rest, or a replica that does not change           condition says who
//	a replica of this update has it, which must wait    it runs on as well
//	for such a one
//	a replica of this update has it, which can go       waits for that one: a chain is
//	                                                    followed from its free end
//	the replicas want each other's                      see breakCycles
//
// A replica that is kept from its address and is lost comes back with the address that it had.
//
// A Recreate deletes all of them at once, and none while the address of one that runs is
// kept: until then, replicas that are lost come back as they were.
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

// await lets a replica run on, or start that came back as it was. It costs something, so that its surge replica stays,
// if the wait will end.
func (v *view) await(place int, ends bool) {
	if r := &v.replicas[place]; r.stale && r.step.kind == stepRecreate && (r.runs() || v.kept[place] && v.isCurrent(place)) {
		r.step = step{kind: stepAwait, reason: "waits for a wanted address", costs: ends}
	}
}

// isCurrent says that the replica, which may have yet to start, is what would be made were it lost.
func (v *view) isCurrent(place int) bool {
	r, current := v.replicas[place], v.revisions.current
	return r.live() && r.pod.Labels[v1.PodTemplateHashLabel] == current.hash &&
		r.pod.Annotations[v1.Pod2RequestAnnotation] == v.requestsOf(current).of(v.ordinals.At(place))
}

// runs says that the pod has its addresses and serves, or soon will.
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

// breakCycles returns the replicas that go first of those that want each other's
// addresses: of each cycle the last one that does not serve, else the last, and only where
// two may be missing at once. One is missing until all others of the cycle, one after the
// other, have moved. Where that cannot be, all of the cycle are stuck, and the condition says
// so. A cycle of which a replica is missing already is broken.
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

// resolve marks as done the replicas that wait for no replica that is not done, until there
// are no more of them. The others are part of a cycle, or wait for one.
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

// cycleFrom follows who waits for whom until somebody comes again.
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

// holds on each replica that has to get the addresses of the spec: one that is to be
// recreated, and one that is missing or waits.
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
	holds := make([][]hold, min(len(v.replicas), v.requests.wanted)) // those after them want none by name
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

// hold of a holder on a replica; nil when there is none; first match wins:
//
//	it is the replica's own                                none
//	another owner has it, or keeps it                      kept
//	another owner kept it for a replica it has no more     ends by itself
//	a pod of ours that has no place has or had it          ends by itself
//	a replica keeps it: it changes to no other, or comes   kept
//	after this one, where all are deleted at once
//	it rests, or its pod goes                              ends by itself
//	the replica runs, and is to be recreated               the replica gives it up
//	the replica runs, and is frozen                        kept
//	reserved: the replica waits for another address        the replica has given it up, and
//	                                                       nothing is in the way once it has rested
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

// replicaAt is nil for a place that is none of a replica.
func (v *view) replicaAt(place int, placed bool) *replica {
	if !placed || place >= len(v.replicas) {
		return nil
	}
	return &v.replicas[place]
}

// givesUp says whether the spec has another address for the replica than the wanted one.
// One that may have any keeps what it had.
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
		return "it rests since " + whose + " terminated"
	}
	return whose + " holds it"
}
