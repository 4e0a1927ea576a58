package network

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
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
//	Reserved  owner gone or no longer asks      -> Resting
//	Reserved  the pod is bound elsewhere        -> Resting (see settleMoved)
//	Resting   reuseDelaySeconds are over        -> free
//
// "The Network goes" is a page of a Network that is terminating or gone.
func (v *view) settle() {
	for _, p := range v.ledger.pages {
		goes := v.goes(p)
		for i := range p.entries {
			e := &p.entries[i]
			keeps := v.keeps(e.Owner)
			switch {
			case e.State == v1.AddressBound && Over(PodRef{e.Pod, e.PodUID}, v.pods[e.Pod]):
				p.over(i, afterBound(goes, keeps, v.delay), v.now)
			case e.State == v1.AddressBound && v.surplus(e):
				p.turn(i, afterBound(goes, false, v.delay), v.now)
			case e.State == v1.AddressBound:
			case goes:
				p.turn(i, "", v.now)
			case e.State == v1.AddressReserved && !keeps:
				p.turn(i, afterBound(goes, keeps, v.delay), v.now)
			case e.State == v1.AddressResting && v.rested(e):
				p.turn(i, "", v.now)
			}
		}
	}
	v.ledger.sweep()
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
	pod := v.pods[e.Pod]
	published, ok := attachment.Published(pod)[v.name]
	if !ok || attachment.Gated(pod) || published.Address.Addr() == e.addr {
		return false
	}
	other := v.ledger.find(published.Address.Addr())
	return other != nil && other.State == v1.AddressBound && other.PodUID == e.PodUID
}

// writeBack enters the addresses that live pods publish and the ledger does not
// have: the block was removed by hand. It comes before any bind. A pod that
// publishes what another live pod holds is returned.
func (v *view) writeBack(pods []*corev1.Pod) (conflicts []conflict) {
	for _, pod := range pods {
		addr, ok := v.recordable(pod)
		if !ok {
			continue
		}
		ref := PodRef{pod.Name, pod.UID}
		e := v.ledger.find(addr)
		switch {
		case e == nil, e.State != v1.AddressBound:
			v.ledger.bind(addr, ref, attachment.Owner(pod), v.now)
		case e.PodUID == pod.UID:
		case Over(PodRef{e.Pod, e.PodUID}, v.pods[e.Pod]):
			page := v.ledger.page(addr)
			page.confirmOver = append(page.confirmOver, PodRef{e.Pod, e.PodUID})
			v.ledger.bind(addr, ref, attachment.Owner(pod), v.now)
		default:
			conflicts = append(conflicts, conflict{pod, addr, e.Pod})
		}
	}
	return conflicts
}

// recordable returns the address that a live pod publishes, if an entry for it
// could be written. It could not in a page of an earlier Network of this name,
// where nothing is handed out until it is empty and gone, nor could a block be
// created for a Network that goes and has lost our finalizer already.
func (v *view) recordable(pod *corev1.Pod) (netip.Addr, bool) {
	if attachment.Over(pod) || attachment.Gated(pod) {
		return netip.Addr{}, false
	}
	published, ok := attachment.Published(pod)[v.name]
	addr := published.Address.Addr()
	if !ok || !v.cidr.IsValid() || !v.cidr.Contains(addr) || !v.ledger.writable(addr) {
		return netip.Addr{}, false
	}
	return addr, v.ledger.page(addr) != nil || !terminating(v.network) || hasFinalizer(v.network)
}

type conflict struct {
	pod    *corev1.Pod
	addr   netip.Addr
	holder string
}

// keeps says whether the owner keeps stable names, exists, and still asks for
// this Network.
func (v *view) keeps(owner v1.AddressOwner) bool {
	replicas, ok := v.owners[owner]
	return ok && slices.Contains(replicas.Networks, v.name)
}

// hasOrdinal says whether the pod's name is that of a replica the owner still
// has. An address reserved for one scaled away is given away last.
func (r Replicas) hasOrdinal(owner v1.AddressOwner, pod string) bool {
	suffix, ok := strings.CutPrefix(pod, owner.Name+"-")
	if !ok {
		return false
	}
	ordinal, err := strconv.ParseInt(suffix, 10, 64)
	return err == nil && strconv.FormatInt(ordinal, 10) == suffix &&
		ordinal >= int64(r.Start) && ordinal < int64(r.Start)+int64(r.Count)
}
