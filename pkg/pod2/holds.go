package pod2

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

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
	holds := make([][]hold, min(v.replicas, v.requests.wanted)) // later ones want no address by name
	for place := range holds {
		r := v.at(place)
		moves := r.stale && r.step.kind == stepRecreate
		comes := v.revisionFor(place) == v.revisions.update && (r.pod == nil || r.own && (r.terminating || r.gated))
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
	case r.own && r.gated:
		rests.sibling = sibling
		return rests
	}
	return &hold{sibling: sibling}
}

// replicaAt returns nil for a place that is not a replica's.
func (v *view) replicaAt(place int, placed bool) *replica {
	if !placed || place >= v.replicas {
		return nil
	}
	return v.at(place)
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
