package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// Reasons of the condition samplecrd.k8s.io/AddressesBound, and of AddressesAvailable.
const (
	ReasonNetworkNotFound    = "NetworkNotFound"
	ReasonNetworkTerminating = "NetworkTerminating"
	ReasonNetworkNotReady    = "NetworkNotReady"
	ReasonNetworkExhausted   = "NetworkExhausted"
	ReasonAddressInUse       = "AddressInUse"
	ReasonAddressRefused     = "AddressRefused"
	ReasonAddressConflict    = "AddressConflict"
)

// waiting is a pod that waits for its addresses.
type waiting struct {
	pod      *corev1.Pod
	ref      PodRef
	requests []attachment.Request
	holds    bool // an address on some Network already
}

// placement is an address that a pod could have. If held, the pod has it already.
type placement struct {
	addr netip.Addr
	held bool
}

// refusal tells the user of a pod why the pod gets no address. If no address is free,
// exhaustedText writes the message.
type refusal struct{ reason, message string }

// blocked is a pod that this Network keeps waiting.
type blocked struct {
	pod *corev1.Pod
	why refusal
}

// waitingPods returns the pods that ask for this Network and wait, in the order of service.
// Pods that hold an address already come first, so none holds one without use; then the
// oldest.
func (v *view) waitingPods(pods []*corev1.Pod, neighbours map[string]*view) []waiting {
	var queue []waiting
	for _, pod := range pods {
		requests, ok := Wants(pod)
		if !ok || !slices.ContainsFunc(requests, func(r attachment.Request) bool { return r.Network == v.name }) {
			continue
		}
		w := waiting{pod: pod, ref: PodRef{pod.Name, pod.UID}, requests: requests}
		for _, r := range requests {
			_, held := v.at(r, neighbours).ledger.bound(pod.Name, pod.UID)
			w.holds = w.holds || held
		}
		queue = append(queue, w)
	}
	slices.SortStableFunc(queue, func(a, b waiting) int {
		if a.holds != b.holds {
			if a.holds {
				return -1
			}
			return 1
		}
		return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return queue
}

// at returns the view of the Network that a request names.
func (v *view) at(r attachment.Request, neighbours map[string]*view) *view {
	if r.Network == v.name {
		return v
	}
	return neighbours[r.Network]
}

// serve binds the addresses that it can and returns the pods that this Network keeps
// waiting.
//
// A pod on several Networks is bound in name order, and only if each Network has an
// address for it in this one view. So no pod waits for a Network while it holds an
// address of a later name, and no two pods wait for each other. If several Networks
// cannot serve a pod, the first in name order reports it.
func (v *view) serve(queue []waiting, neighbours map[string]*view) (kept []blocked, exhausted []string) {
	for _, w := range queue {
		placements := make([]placement, 0, len(w.requests))
		earlierHeld, refused := true, (*refusal)(nil)
		for _, r := range w.requests {
			at := v.at(r, neighbours)
			place, why := at.place(w, r)
			if why != nil {
				if at == v {
					refused = why
				}
				placements = nil
				break
			}
			if r.Network < v.name {
				earlierHeld = earlierHeld && place.held
			}
			placements = append(placements, place)
		}
		if refused != nil {
			kept = append(kept, blocked{w.pod, *refused})
			if refused.reason == ReasonNetworkExhausted {
				exhausted = append(exhausted, w.pod.Name)
			}
		}
		for i, place := range placements {
			at := v.at(w.requests[i], neighbours)
			switch {
			case place.held:
			case at == v && earlierHeld:
				v.ledger.bind(place.addr, w.ref, attachment.Owner(w.pod), v.now)
			default:
				at.ledger.promised[place.addr] = true
			}
		}
	}
	return kept, exhausted
}

// place finds the address for a pod. First match wins:
//
//	the pod holds an address              that one
//	the Network cannot serve              refused
//	the pod asks for a given address      that one, or refused
//	one is kept for its name and owner    that one; refused for now while its AddressBlock lacks its owner
//	blocks of a backup may come           refused, unless the pod asks for an address in an existing block
//	an address is free                    the lowest
//	one was reserved for a scaled-down replica and has rested   the longest reserved one
//	the spec leaves no address            refused
//	an AddressBlock is empty and sealed,  refused for now: the next sync has its addresses
//	or lacks its owner
//	none                                  refused
//
// A pod that is refused for now gets no condition.
func (v *view) place(w waiting, r attachment.Request) (placement, *refusal) {
	if addr, held := v.ledger.bound(w.ref.Name, w.ref.UID); held {
		return placement{addr, true}, nil
	}
	switch {
	case v.network == nil:
		return placement{}, &refusal{ReasonNetworkNotFound,
			fmt.Sprintf("Network %q does not exist in this namespace; create it", v.name)}
	case terminating(v.network):
		return placement{}, &refusal{ReasonNetworkTerminating,
			fmt.Sprintf("Network %q is being deleted and takes no new pods; recreate it once it is gone, or ask for another Network", v.name)}
	case v.poolErr != nil:
		return placement{}, &refusal{ReasonNetworkNotReady,
			fmt.Sprintf("Network %q cannot serve: %s", v.name, v.poolErr)}
	case v.refuses:
		return placement{}, &refusal{ReasonNetworkNotReady,
			fmt.Sprintf("Network %q cannot serve: %s", v.name, v.overlapText())}
	}
	if own := v.own(w, r.Address); own != nil {
		if v.unowned(v.ledger.page(own.addr)) {
			return placement{}, &refusal{} // the next sync serves the pod: this one adds the owner reference
		}
		return placement{addr: own.addr}, nil
	}
	if p := v.ledger.page(r.Address); v.held != nil && (p == nil || !p.open) {
		return placement{}, v.held
	}
	if r.Address.IsValid() {
		return v.placeWanted(w, r.Address)
	}
	if addr, ok := v.ledger.free(v.pool); ok {
		return placement{addr: addr}, nil
	}
	if addr, ok := v.reclaim(); ok {
		return placement{addr: addr}, nil
	}
	if why := v.leavesNone(); why != "" {
		return placement{}, &refusal{ReasonNetworkNotReady, fmt.Sprintf("Network %q cannot serve: %s", v.name, why)}
	}
	if v.opens() {
		return placement{}, &refusal{}
	}
	v.short = true
	return placement{}, &refusal{reason: ReasonNetworkExhausted}
}

// own returns the entry that is kept for a pod with this name and owner, or nil. That is the
// wanted address if the pod asks for one, else the one that it had last. The replica keeps a
// Reserved address even if it was excluded or moved to onRequest later, because it is in
// use. It does not keep a Resting one. Nor does it keep an address that no pod of the
// Network can have: the Network in a backup may have had another CIDR or gateway.
//
// A replica also gets the Resting address of a pod with its name, unless an existing Pod2 or
// StatefulSet keeps that address. Its owner may have adopted that pod, and the pod may have
// ended before the entry was updated.
func (v *view) own(w waiting, wanted netip.Addr) (last *entry) {
	owner := attachment.Owner(w.pod)
	heir := v.keeps(owner) && v.owners[owner].hasOrdinal(owner, w.ref.Name)
	for _, addr := range v.ledger.ofPod[w.ref.Name] {
		e := v.ledger.find(addr)
		switch {
		case e == nil || e.Pod != w.ref.Name:
		case e.Owner != owner && (!heir || e.State != v1.AddressResting || v.keeps(e.Owner)):
		case !v.ledger.writable(addr) && !v.unowned(v.ledger.page(addr)) || v.ledger.promised[addr]:
		case wanted.IsValid() && addr != wanted:
		case v.pool.NoPod(addr) != "":
		case e.State == v1.AddressResting && v.pool.Refusal(addr) != "":
		case e.State == v1.AddressResting && !wanted.IsValid() && !v.pool.Has(addr):
		case last == nil || e.later(last):
			last = e
		}
	}
	return last
}

// later says whether the pod had this address later than the other. An address that the pod
// gave up rests; the other one is Bound or Reserved from then on.
func (e *entry) later(than *entry) bool {
	if a, b := e.State == v1.AddressResting, than.State == v1.AddressResting; a != b {
		return b
	}
	return e.Since.After(than.Since.Time)
}

func (v *view) placeWanted(w waiting, addr netip.Addr) (placement, *refusal) {
	if why := v.pool.Refusal(addr); why != "" {
		return placement{}, &refusal{ReasonAddressRefused,
			fmt.Sprintf("the wanted address %s %s of Network %q; ask for another one, or for none to get any", addr, why, v.name)}
	}
	holder := ""
	if e := v.ledger.find(addr); e != nil && !v.mayReclaim(e) && !v.passes(e, w) {
		v.awaited[addr] = v.awaited[addr] || v.passesLater(e, w)
		holder = fmt.Sprintf("is %s", stateText(e))
	} else if v.ledger.promised[addr] || !v.ledger.writable(addr) {
		holder = "is not free yet"
	}
	if holder != "" {
		v.short = true
		return placement{}, &refusal{ReasonAddressInUse,
			fmt.Sprintf("the wanted address %s of Network %q %s; wait until it is free, or ask for another one, or for none to get any", addr, v.name, holder)}
	}
	return placement{addr: addr}, nil
}

// passes says whether an address reserved for one replica may go to another replica of the
// same owner that asks for it. Without this, two replicas that swap their addresses would
// wait for each other forever.
func (v *view) passes(e *entry, to waiting) bool {
	return v.passesLater(e, to) && v.rested(e) && v.ledger.writable(e.addr) && !v.ledger.promised[e.addr]
}

// passesLater says whether the address may pass once it has rested: the replica that it is
// reserved for waits for another given address of this Network.
func (v *view) passesLater(e *entry, to waiting) bool {
	pod := v.pods[e.Pod]
	if e.State != v1.AddressReserved || e.Owner != attachment.Owner(to.pod) || pod == nil || attachment.Owner(pod) != e.Owner {
		return false
	}
	requests, waits := Wants(pod)
	return waits && slices.ContainsFunc(requests, func(r attachment.Request) bool {
		return r.Network == v.name && r.Address.IsValid() && r.Address != e.addr
	})
}

func stateText(e *entry) string {
	switch e.State {
	case v1.AddressReserved:
		return "reserved for pod " + e.Pod
	case v1.AddressResting:
		return "resting since pod " + e.Pod + " terminated"
	}
	return "held by pod " + e.Pod
}

// waits returns the conditions of the waiting pods, once the remaining addresses are known.
func (v *view) waits(kept []blocked) []Wait {
	var waits []Wait
	exhausted := 0
	for _, b := range kept {
		if b.why.reason == ReasonNetworkExhausted {
			b.why.message = v.exhaustedText(exhausted)
			exhausted++
		}
		waits = append(waits, v.wait(b.pod, b.why)...)
	}
	return waits
}

// wait returns the condition for the user. It returns none if the pod has it already, or if
// there is nothing to report.
func (v *view) wait(pod *corev1.Pod, why refusal) []Wait {
	if why.reason == "" {
		return nil
	}
	condition, changed := addressesBound(pod, corev1.ConditionFalse, why.reason, why.message, v.now)
	if !changed {
		return nil
	}
	return []Wait{{Pod: PodRef{pod.Name, pod.UID}, Condition: condition}}
}
