package network

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ordinals"
)

// Over says whether the pod that an entry names has terminated, given the pod now found
// under its name, or nil. Both forms of terminated are final: UIDs are never reused, and
// a kubelet reports a terminal phase only when no container can run any more. A
// terminating pod has not terminated.
func Over(ref PodRef, found *corev1.Pod) bool {
	return found == nil || found.UID != ref.UID || attachment.Over(found)
}

// settle updates the entries that their pods no longer need. First match wins:
//
//	Bound     pod terminated, Network ends             -> free
//	Bound     pod terminated, its owner keeps it       -> Reserved
//	Bound     pod terminated                           -> Resting
//	Bound     pod publishes another bound one          -> Resting
//	Bound     pod adopted by another owner             -> Bound, of that owner
//	Reserved  owner gone or no longer asks             -> Resting, an hour later if inherited
//	Reserved  a user asks to release it                -> Resting for the rest of the delay, or free
//	Reserved  the pod is bound to another address      -> Resting (see settleMoved)
//	Resting   reuseDelaySeconds have passed            -> free
//	either    since is in the future                   -> since now: a leader's clock was wrong. Not if inherited,
//	                                                      by up to an hour
//
// "Network ends" means that the Network is terminating or gone. For a Network that was
// restored from a backup, see inherit.
func (v *view) settle() {
	for _, p := range v.ledger.pages {
		switch {
		case p.quiet || v.awaits(p) > 0:
			continue
		case v.inheritable(p):
			v.inherit(p)
			continue
		}
		goes := v.goes(p)
		for i := range p.entries {
			e := &p.entries[i]
			if e.settled {
				continue
			}
			keeps := v.keeps(e.Owner)
			switch {
			case e.State == v1.AddressBound && v.over(e):
				p.over(i, afterBound(goes, keeps, v.delay), v.now)
			case e.State == v1.AddressBound && v.surplus(e):
				p.turn(i, afterBound(goes, false, v.delay), v.now)
			case e.State == v1.AddressBound:
				if owner, adopted := v.adopted(p, e); adopted {
					next := *e.AddressEntry
					next.Owner = owner
					e.AddressEntry = &next
				}
			case goes:
				p.turn(i, "", v.now)
			case e.State == v1.AddressReserved && !keeps && v.grace(p, e) == 0:
				p.turn(i, afterBound(goes, keeps, v.delay), v.now)
			case e.State == v1.AddressReserved && v.releases(e):
				p.turn(i, v.restOf(e), e.Since)
			case e.State == v1.AddressResting && v.rested(e):
				p.turn(i, "", v.now)
			case v.ahead(e) && v.grace(p, e) == 0: // grace needs the time of the inheritance
				p.turn(i, e.State, v.now)
			}
		}
	}
	v.ledger.sweep()
}

// over says whether the pod of a Bound entry has terminated in this view.
func (v *view) over(e *entry) bool {
	return !e.settled && Over(PodRef{e.Pod, e.PodUID}, v.pods[e.Pod])
}

// adopted returns the owner of the live pod that holds an entry of another owner. The
// address is later kept for the owner that the pod has at its end. If the pod has no
// controller, the entry keeps its owner, which may adopt the pod again. A Network that is
// being deleted keeps addresses for no owner.
func (v *view) adopted(p *page, e *entry) (v1.AddressOwner, bool) {
	owner := attachment.Owner(v.pods[e.Pod])
	return owner, owner != v1.AddressOwner{} && owner != e.Owner && !v.goes(p)
}

func afterBound(goes, keeps bool, delay time.Duration) v1.AddressState {
	switch {
	case goes:
		return ""
	case keeps:
		return v1.AddressReserved
	case delay == 0:
		return ""
	}
	return v1.AddressResting
}

// settleMoved lets the reserved address of a replica rest if the replica asked for another
// address and got it.
func (v *view) settleMoved() {
	for _, p := range v.ledger.pages {
		if p.quiet || p.inherits {
			continue
		}
		for i := range p.entries {
			e := &p.entries[i]
			if e.State != v1.AddressReserved {
				continue
			}
			pod := v.pods[e.Pod]
			if pod == nil || attachment.Owner(pod) != e.Owner {
				continue
			}
			if _, bound := v.ledger.bound(e.Pod, pod.UID); bound {
				p.turn(i, v1.AddressResting, v.now)
			}
		}
	}
}

// surplus says whether an entry is bound to a live pod that publishes another address
// bound to it. This happens if two controllers bound one pod in two AddressBlocks: the pod
// publishes once, and that decides. The other entry can never be published, because a
// publishing write carries the resourceVersion of the gated pod. If another client wrote
// the annotation of a gated pod, that decides nothing.
func (v *view) surplus(e *entry) bool {
	published, ok := v.published[e.Pod]
	if !ok || published == e.addr {
		return false
	}
	other := v.ledger.find(published)
	return other != nil && other.State == v1.AddressBound && other.PodUID == e.PodUID
}

// writeBack enters the addresses that live pods publish and that no AddressBlock has,
// because a user deleted the AddressBlock. It runs before any bind. It returns the pods that
// publish an address which they may not have.
func (v *view) writeBack(pods []*corev1.Pod) (conflicts []conflict) {
	for _, pod := range pods {
		addr, ok := v.recordable(pod)
		if !ok {
			continue
		}
		switch e, why := v.claim(pod, addr); {
		case why != "":
			conflicts = append(conflicts, conflict{pod, addr, why})
		case e != nil && e.State == v1.AddressBound && e.PodUID == pod.UID:
		default:
			v.ledger.bind(addr, PodRef{pod.Name, pod.UID}, attachment.Owner(pod), v.now)
		}
	}
	return conflicts
}

// claim returns the entry of the address that a live pod publishes, or nil. It also
// returns the reason if the pod may not have the address. The AddressBlocks are
// authoritative: an annotation fills their gaps and overrules nothing. First match wins:
//
//	the entry is bound to the pod              it has it
//	another address is bound to the pod        refused: a user changed the annotation
//	it is the gateway                          refused
//	no entry                                   granted
//	bound to a terminated pod                  granted, once that is confirmed
//	reserved or resting                        granted: it is in use, even if another pod waits for it
//	bound to a live pod                        refused
func (v *view) claim(pod *corev1.Pod, addr netip.Addr) (*entry, string) {
	e := v.ledger.find(addr)
	if e != nil && e.State == v1.AddressBound && e.PodUID == pod.UID {
		return e, ""
	}
	if own, bound := v.ledger.bound(pod.Name, pod.UID); bound {
		return e, fmt.Sprintf("is published by the pod, but the pod is bound to %s", own)
	}
	if gateway, ok := Gateway(v.network); ok && gateway == addr {
		return e, "is the gateway"
	}
	switch {
	case e == nil:
	case e.State == v1.AddressBound && !v.ledger.page(addr).quiet && v.over(e):
	case e.State != v1.AddressBound:
	default:
		return e, "is " + stateText(e)
	}
	return e, ""
}

// recordable returns the address that a live pod publishes, if an entry for it could be
// written. An AddressBlock of an earlier Network with this name takes no entry: it hands
// out nothing until it is empty and deleted. And no AddressBlock can be created for a
// terminating Network that has already lost our finalizer.
func (v *view) recordable(pod *corev1.Pod) (netip.Addr, bool) {
	addr, ok := v.published[pod.Name]
	if !ok || attachment.Over(pod) || !v.cidr.IsValid() || !v.cidr.Contains(addr) || !v.ledger.writable(addr) {
		return netip.Addr{}, false
	}
	return addr, v.ledger.page(addr) != nil || !terminating(v.network) || hasFinalizer(v.network)
}

type conflict struct {
	pod  *corev1.Pod
	addr netip.Addr
	why  string
}

// keeps says whether the owner keeps names stable, exists, and still asks for this Network.
func (v *view) keeps(owner v1.AddressOwner) bool {
	replicas, ok := v.owners[owner]
	return ok && slices.Contains(replicas.Networks, v.name)
}

// ScaledAway says whether the entry of a Network is reserved for a replica that its owner
// was scaled down from. The owner must exist. Other pods may have the address once it has
// rested.
func (r Replicas) ScaledAway(network string, e v1.AddressEntry) bool {
	return e.State == v1.AddressReserved && slices.Contains(r.Networks, network) && !r.hasOrdinal(e.Owner, e.Pod)
}

// hasOrdinal says whether the pod's name is the name of a current replica of the owner. The
// address of a scaled-down replica is given to others last.
func (r Replicas) hasOrdinal(owner v1.AddressOwner, pod string) bool {
	ordinal, ok := ordinals.Parse(owner.Name, pod)
	return ok && r.Ordinals.Has(ordinal)
}
