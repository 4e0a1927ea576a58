package network

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// Converged says "" when no write is due, else the first thing that is not as it
// should be. It is what "done" means, written apart from the way there:
//
//   - a Network that lives has our finalizer, and is marked as one that hands out
//     addresses unless blocks of a backup may come; one that goes loses the finalizer
//     once all of its blocks are sealed;
//   - no block of a backup could be inherited, and each has its owner reference, unless
//     there is no Network;
//   - every address that a live pod publishes is bound to it in the ledger;
//   - a Bound entry has a live pod, and its owner if it has one, a Reserved one an owner that still asks, a
//     Resting one has not rested yet, and a Network that goes has Bound ones only;
//   - no empty block stands about, unless as the tombstone of a Network that goes;
//   - no waiting pod could be bound, which on a Network that overlaps the cluster and
//     holds no address none can, and each that this Network keeps waiting says why in
//     its condition;
//   - the status says all this.
//
// Pods that wait for something that others must do are converged: for them there
// is nothing to write.
func Converged(s State) string {
	v, neighbours := newView(s)
	switch {
	case v.network != nil && !terminating(v.network) && !hasFinalizer(v.network):
		return "the finalizer is missing"
	case v.begins():
		return "it does not say that it hands out addresses"
	case terminating(v.network) && hasFinalizer(v.network) && v.allSealed():
		return "the finalizer holds a Network without addresses in use"
	}
	if why := v.unrecorded(s.Pods); why != "" {
		return why
	}
	for _, p := range v.ledger.pages {
		switch {
		case p.quiet || v.awaits(p) > 0:
			continue
		case v.inheritable(p):
			return fmt.Sprintf("block %s was restored from a backup, and is not inherited", p.block.Name)
		case v.unowned(p):
			return fmt.Sprintf("block %s has no owner reference", p.block.Name)
		case len(p.dropped) > 0:
			return fmt.Sprintf("block %s has entries that mean nothing: %s", p.block.Name, p.dropped[0])
		case p.unguarded():
			return fmt.Sprintf("block %s is in use and lacks the finalizer", p.block.Name)
		}
		for i := range p.entries {
			if why := v.unsettled(p, &p.entries[i]); why != "" {
				return why
			}
		}
		if len(p.entries) == 0 {
			if _, block, change := v.retire(p); block != nil {
				return fmt.Sprintf("empty block %s: %s", p.block.Name, change)
			}
		}
	}
	exhausted, why := v.unserved(s.Pods, neighbours)
	if why != "" {
		return why
	}
	if status, _ := v.status(exhausted); status != nil {
		return "the status would be: " + statusText(status)
	}
	return ""
}

func (v *view) unrecorded(pods []*corev1.Pod) string {
	for _, pod := range pods {
		addr, ok := v.recordable(pod)
		if !ok {
			continue
		}
		e, refused := v.claim(pod, addr)
		switch {
		case refused != "":
			if len(v.conflictWaits([]conflict{{pod, addr, refused}})) > 0 {
				return fmt.Sprintf("pod %s does not say that %s %s", pod.Name, addr, refused)
			}
		case e == nil || e.State != v1.AddressBound:
			return fmt.Sprintf("%s, which pod %s publishes, is not bound", addr, pod.Name)
		case e.PodUID != pod.UID:
			return fmt.Sprintf("%s, which pod %s publishes, is bound to %s, which is over", addr, pod.Name, e.Pod)
		}
	}
	return ""
}

func (v *view) unsettled(p *page, e *entry) string {
	if e.settled {
		return ""
	}
	switch e.State {
	case v1.AddressBound:
		if Over(PodRef{e.Pod, e.PodUID}, v.pods[e.Pod]) {
			return fmt.Sprintf("%s is bound to %s, which is over", e.addr, e.Pod)
		}
		if v.surplus(e) {
			return fmt.Sprintf("%s is bound to %s, which publishes another", e.addr, e.Pod)
		}
		if owner, adopted := v.adopted(p, e); adopted {
			return fmt.Sprintf("%s is bound to %s, which %s %s has adopted", e.addr, e.Pod, owner.Kind, owner.Name)
		}
		return ""
	case v1.AddressReserved:
		if !v.keeps(e.Owner) && v.grace(p, e) == 0 {
			return fmt.Sprintf("%s is reserved for %s, whose owner does not ask for it", e.addr, e.Pod)
		}
		if pod := v.pods[e.Pod]; pod != nil && attachment.Owner(pod) == e.Owner {
			if _, elsewhere := v.ledger.bound(e.Pod, pod.UID); elsewhere {
				return fmt.Sprintf("%s is reserved for %s, which holds another", e.addr, e.Pod)
			}
		}
		if !v.goes(p) && v.releases(e) {
			return fmt.Sprintf("%s is reserved for %s, and to be released", e.addr, e.Pod)
		}
	default:
		if v.rested(e) {
			return fmt.Sprintf("%s has rested", e.addr)
		}
	}
	if v.ahead(e) {
		return fmt.Sprintf("%s is kept for %s since a time to come", e.addr, e.Pod)
	}
	if v.goes(p) {
		return fmt.Sprintf("%s is kept for %s by a Network that goes", e.addr, e.Pod)
	}
	return ""
}

// unserved goes through the waiting pods in order, like serve, and binds nothing.
func (v *view) unserved(pods []*corev1.Pod, neighbours map[string]*view) (exhausted []string, why string) {
	for _, w := range v.waitingPods(pods, neighbours) {
		_, held := v.ledger.bound(w.ref.Name, w.ref.UID)
		turn, served := !held, true
		promises := map[*view]placement{}
		for _, r := range w.requests {
			at := v.at(r, neighbours)
			place, refused := at.place(w, r)
			if refused != nil {
				served = false
				if at != v {
					break
				}
				if refused.reason == ReasonNetworkExhausted {
					refused.message = v.exhaustedText(len(exhausted))
				}
				if len(v.wait(w.pod, *refused)) > 0 {
					return nil, fmt.Sprintf("pod %s does not say why it waits: %s", w.ref.Name, refused.message)
				}
				if refused.reason == ReasonNetworkExhausted {
					exhausted = append(exhausted, w.ref.Name)
				}
				break
			}
			turn = turn && (place.held || r.Network >= v.name)
			promises[at] = place
		}
		if served && turn {
			return nil, fmt.Sprintf("pod %s could be bound to %s", w.ref.Name, promises[v].addr)
		}
		if served {
			for at, place := range promises {
				at.ledger.promised[place.addr] = at.ledger.promised[place.addr] || !place.held
			}
		}
	}
	return exhausted, ""
}
