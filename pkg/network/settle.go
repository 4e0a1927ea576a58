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

// Over says whether the incarnation of a pod that an entry names is over, given
// the pod now found under that name, or nil. Both ways of being over are stable:
// UIDs are never reused, and a kubelet reports a terminal phase only when no
// container can run any more. A terminating pod is not over.
func Over(ref PodRef, found *corev1.Pod) bool {
	return found == nil || found.UID != ref.UID || attachment.Over(found)
}

// settle moves on the entries that their pods no longer need. First match wins:
//
//	Bound     pod over, Network goes            -> free
//	Bound     pod over, its owner keeps it      -> Reserved
//	Bound     pod over                          -> Resting
//	Bound     pod publishes another bound one   -> Resting
//	Bound     pod adopted by another owner      -> Bound, of that owner
//	Reserved  owner gone or no longer asks      -> Resting, an hour later if inherited
//	Reserved  its release is asked for          -> Resting for the rest of the delay, or free
//	Reserved  the pod is bound elsewhere        -> Resting (see settleMoved)
//	Resting   reuseDelaySeconds are over        -> free
//	either    since a time to come              -> since now: a leader's clock was wrong
//
// "The Network goes" is a page of a Network that is terminating or gone. What becomes
// of one that was restored from a backup, see inherit.
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
			case v.ahead(e):
				p.turn(i, e.State, v.now)
			}
		}
	}
	v.ledger.sweep()
}

// over says whether the pod of a Bound entry is, by this view.
func (v *view) over(e *entry) bool {
	return !e.settled && Over(PodRef{e.Pod, e.PodUID}, v.pods[e.Pod])
}

// adopted returns the owner of the live pod that holds an entry of another one:
// what the address is kept for later is the owner that the pod has at its end. A
// pod without a controller leaves the entry to the owner it had, which may adopt
// it again. A Network that goes keeps nothing for anybody.
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

// settleMoved lets the reserved address of a replica rest that was bound to
// another one, because another one was wanted by name.
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

// surplus says whether an entry is bound to a live pod that publishes another
// address, bound to it too: two controllers bound one pod in two blocks, and the
// pod, which publishes once, has chosen. The entry can never be published then,
// since a publishing write carries the resourceVersion of the gated pod; a gated
// pod with an answer that somebody else wrote has chosen nothing.
func (v *view) surplus(e *entry) bool {
	published, ok := v.published[e.Pod]
	if !ok || published == e.addr {
		return false
	}
	other := v.ledger.find(published)
	return other != nil && other.State == v1.AddressBound && other.PodUID == e.PodUID
}

// writeBack enters the addresses that live pods publish and the ledger does not
// have: the block was removed by hand. It comes before any bind. What a pod
// publishes and may not have is returned.
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

// claim returns the entry of the address that a live pod publishes, nil if there
// is none, and why the pod may not have the address. The ledger says who holds
// what; an annotation fills its gaps and overrules nothing. First match wins:
//
//	the entry is bound to the pod              it has it
//	another address is bound to the pod        refused: somebody changed the annotation
//	it is the gateway                          refused
//	no entry                                   granted
//	bound to a pod that is over                granted, once that is confirmed
//	reserved or resting                        granted: it is in use, whoever waits for it
//	bound to a live pod                        refused
func (v *view) claim(pod *corev1.Pod, addr netip.Addr) (*entry, string) {
	e := v.ledger.find(addr)
	if e != nil && e.State == v1.AddressBound && e.PodUID == pod.UID {
		return e, ""
	}
	if own, bound := v.ledger.bound(pod.Name, pod.UID); bound {
		return e, fmt.Sprintf("is published by the pod, to which %s is bound", own)
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

// recordable returns the address that a live pod publishes, if an entry for it
// could be written. It could not in a page of an earlier Network of this name,
// where nothing is handed out until it is empty and gone, nor could a block be
// created for a Network that goes and has lost our finalizer already.
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

// keeps says whether the owner keeps stable names, exists, and still asks for
// this Network.
func (v *view) keeps(owner v1.AddressOwner) bool {
	replicas, ok := v.owners[owner]
	return ok && slices.Contains(replicas.Networks, v.name)
}

// ScaledAway says whether the entry of a Network is reserved for a replica that its owner,
// which there is, no longer has. Others may have the address once it has rested.
func (r Replicas) ScaledAway(network string, e v1.AddressEntry) bool {
	return e.State == v1.AddressReserved && slices.Contains(r.Networks, network) && !r.hasOrdinal(e.Owner, e.Pod)
}

// hasOrdinal says whether the pod's name is that of a replica the owner still
// has. An address reserved for one scaled away is given away last.
func (r Replicas) hasOrdinal(owner v1.AddressOwner, pod string) bool {
	ordinal, ok := ordinals.Parse(owner.Name, pod)
	return ok && r.Ordinals.Has(ordinal)
}
