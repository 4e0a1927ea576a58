package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/spec"
)

// held is a Bound entry that counts: its address is in the AddressBlock, and it is the
// first Bound one of that address.
type held struct {
	addr netip.Addr
	pod  string
	uid  types.UID
}

func boundIn(b *v1.AddressBlock) map[netip.Addr]held {
	all := map[netip.Addr]held{}
	for _, e := range b.Spec.Entries {
		addr, err := netip.ParseAddr(e.Address)
		if _, known := all[addr]; err == nil && !known && e.State == v1.AddressBound && netip.MustParsePrefix(b.Spec.CIDR).Contains(addr) {
			all[addr] = held{addr, e.Pod, e.PodUID}
		}
	}
	return all
}

func podNamed(s State, name string) (live bool, uid types.UID, has netip.Addr) {
	for _, pod := range s.Pods {
		if pod.Name == name {
			has := attachment.Published(pod)[s.Name].Address.Addr()
			if attachment.Gated(pod) {
				has = netip.Addr{}
			}
			return !attachment.Over(pod), pod.UID, has
		}
	}
	return false, "", netip.Addr{}
}

func observed(s State, name string) *v1.AddressBlock {
	for _, b := range s.Blocks {
		if b.Name == name {
			return b
		}
	}
	return &v1.AddressBlock{Spec: v1.AddressBlockSpec{CIDR: "0.0.0.0/0"}}
}

// S1: a live pod keeps the address that it holds, unless it publishes another one that it
// also holds. All other entries leave the state Bound only with a confirmation.
func noLiveEntryLeaves(s State, p Plan) (problems []string) {
	for _, w := range p.Blocks {
		after := boundIn(w.Block)
		confirmed := map[PodRef]bool{}
		for _, ref := range w.ConfirmOver {
			confirmed[ref] = true
			if live, uid, _ := podNamed(s, ref.Name); live && uid == ref.UID {
				problems = append(problems, fmt.Sprintf("%s must be confirmed as terminated, but lives in this view", ref))
			}
		}
		for addr, h := range boundIn(observed(s, w.Block.Name)) {
			if after[addr] == h {
				continue
			}
			live, uid, has := podNamed(s, h.pod)
			switch {
			case !live || uid != h.uid:
				if !confirmed[PodRef{h.pod, h.uid}] {
					problems = append(problems, fmt.Sprintf("%s is taken from %s (%s) without a confirmation", addr, h.pod, h.uid))
				}
			case !has.IsValid() || has == addr || !holds(s, p, has, h.uid):
				problems = append(problems, fmt.Sprintf("%s is taken from %s, which is alive", addr, h.pod))
			}
		}
	}
	return problems
}

// holds says whether an AddressBlock has the address bound to the pod, now or after the
// plan.
func holds(s State, p Plan, addr netip.Addr, uid types.UID) bool {
	return slices.ContainsFunc(s.Blocks, func(b *v1.AddressBlock) bool { return boundIn(b)[addr].uid == uid }) ||
		slices.ContainsFunc(p.Blocks, func(w BlockWrite) bool { return boundIn(w.Block)[addr].uid == uid })
}

// S2, and a pod gets all of its addresses or none.
func handedOutRightly(s State, p Plan) (problems []string) {
	served := map[string]bool{}
	for _, w := range p.Blocks {
		before := boundIn(observed(s, w.Block.Name))
		for addr, h := range boundIn(w.Block) {
			if before[addr] == h {
				continue
			}
			live, uid, has := podNamed(s, h.pod)
			if !live || uid != h.uid {
				problems = append(problems, fmt.Sprintf("%s is bound to %s (%s), which does not live", addr, h.pod, h.uid))
			}
			if has == addr {
				continue // written back
			}
			if served[h.pod] {
				problems = append(problems, fmt.Sprintf("%s is bound twice", h.pod))
			}
			served[h.pod] = true
			_, err := Pool(s.Network)
			if why := spec.Unusable(s.Network, addr.String()); err != nil || why != "" && (why != "is excluded" || !keptFor(s, addr, h.pod)) {
				problems = append(problems, fmt.Sprintf("S2: %s is handed out, but %s (%v)", addr, why, err))
			}
			if setAside(s, addr) && !asksFor(s, h.pod, addr) && !keptFor(s, addr, h.pod) {
				problems = append(problems, fmt.Sprintf("%s is on request, but is handed out to %s, which does not ask for it", addr, h.pod))
			}
			if s.Network.Status.ObservedGeneration > 0 && len(s.Network.Status.CIDRs) == 0 {
				problems = append(problems, fmt.Sprintf("%s is handed out while the gateway can still be corrected", addr))
			}
			problems = append(problems, allOrNone(s, h.pod)...)
		}
	}
	return problems
}

// offTheCluster: no pod gets an address that the cluster uses, unless a pod already held one
// of the same range, or the administrator allows it.
func offTheCluster(s State, p Plan) (problems []string) {
	for _, w := range p.Blocks {
		before := boundIn(observed(s, w.Block.Name))
		for addr, h := range boundIn(w.Block) {
			if _, _, has := podNamed(s, h.pod); before[addr] == h || has == addr {
				continue
			}
			cidr := netip.MustParsePrefix(s.Network.Spec.CIDR)
			for _, r := range s.Cluster {
				had := slices.ContainsFunc(s.Blocks, func(b *v1.AddressBlock) bool {
					return b.Spec.NetworkUID == s.Network.UID && slices.ContainsFunc(b.Spec.Entries, func(e v1.AddressEntry) bool {
						a, err := netip.ParseAddr(e.Address)
						return err == nil && r.Prefix.Contains(a)
					})
				})
				within := slices.ContainsFunc(s.AllowedOverlaps, func(p netip.Prefix) bool { return p.Contains(cidr.Addr()) && p.Bits() <= cidr.Bits() })
				if r.Prefix.Contains(addr) && !had && !within {
					problems = append(problems, fmt.Sprintf("%s is handed out, which belongs to %s", addr, r))
				}
			}
		}
	}
	return problems
}

// keptFor says whether an AddressBlock has the address reserved for, or bound to, this name.
func keptFor(s State, addr netip.Addr, pod string) bool {
	return slices.ContainsFunc(s.Blocks, func(b *v1.AddressBlock) bool {
		return slices.ContainsFunc(b.Spec.Entries, func(e v1.AddressEntry) bool {
			return e.Address == addr.String() && e.Pod == pod && e.State != v1.AddressResting
		})
	})
}

func allOrNone(s State, name string) (problems []string) {
	for _, pod := range s.Pods {
		requests, _ := Wants(pod)
		if pod.Name == name && pod.Spec.HostNetwork {
			problems = append(problems, name+" is bound, but has no interface for an address")
		}
		if pod.Name != name || len(requests) == 0 {
			continue
		}
		for _, r := range requests {
			for _, n := range s.Neighbours {
				if n.Name != r.Network {
					continue
				}
				bound := n.Network != nil && slices.ContainsFunc(n.Blocks, func(b *v1.AddressBlock) bool {
					return b.Spec.NetworkUID == n.Network.UID && slices.ContainsFunc(slices.Collect(maps.Values(boundIn(b))), func(h held) bool { return h.uid == pod.UID })
				})
				switch {
				case bound:
				case n.Name < s.Name:
					problems = append(problems, fmt.Sprintf("%s is bound on %s before %s", name, s.Name, n.Name))
				case n.Network == nil || terminating(n.Network):
					problems = append(problems, fmt.Sprintf("%s is bound on %s, but never will be on %s", name, s.Name, n.Name))
				}
			}
		}
		return problems
	}
	return []string{name + " is bound, but does not wait"}
}

func blocksAreRespected(s State, p Plan) (problems []string) {
	for _, w := range p.Blocks {
		old := slices.IndexFunc(s.Blocks, func(b *v1.AddressBlock) bool { return b.Name == w.Block.Name })
		if (w.Verb == Create) != (old < 0) {
			problems = append(problems, fmt.Sprintf("%s block %s: it exists: %t", w.Verb, w.Block.Name, old >= 0))
			continue
		}
		if old >= 0 && w.Seen != s.Blocks[old] {
			problems = append(problems, fmt.Sprintf("%s block %s: decided about another version: %v", w.Verb, w.Block.Name, w.Seen))
		}
		if w.Verb == Create {
			if !p.AddFinalizer && !hasFinalizer(s.Network) || w.Block.Spec.NetworkUID != s.Network.UID || !hasFinalizer(w.Block) {
				problems = append(problems, "a block is created without finalizers")
			}
			continue
		}
		b := s.Blocks[old]
		foreign := s.Network == nil || b.Spec.NetworkUID != s.Network.UID || orphaned(b)
		if w.Block.Spec.NetworkUID != b.Spec.NetworkUID {
			problems = append(problems, inheritedRightly(s, b, w)...)
		}
		before := boundIn(b)
		for addr, h := range boundIn(w.Block) {
			if before[addr] != h && (foreign || b.Spec.Sealed) {
				problems = append(problems, fmt.Sprintf("%s is bound in block %s, which is sealed or of another Network", addr, b.Name))
			}
		}
		if b.Spec.Sealed && !w.Block.Spec.Sealed || w.Block.Spec.Sealed && len(w.Block.Spec.Entries) > 0 {
			problems = append(problems, "a sealed block has entries, or lost its seal")
		}
	}
	if p.RemoveFinalizer && slices.ContainsFunc(s.Blocks, func(b *v1.AddressBlock) bool { return b.Spec.NetworkUID == s.Network.UID && !b.Spec.Sealed }) {
		problems = append(problems, "the finalizer is removed before all blocks are sealed")
	}
	return problems
}

// An AddressBlock is given to another Network only if that Network never bound. All of its
// entries are then kept for the pods that had them, except for addresses that a pod had left.
func inheritedRightly(s State, b *v1.AddressBlock, w BlockWrite) (problems []string) {
	if b.Spec.Sealed || len(b.OwnerReferences) > 0 || s.Network == nil || terminating(s.Network) ||
		s.Network.Annotations[v1.NetworkUIDAnnotation] == string(s.Network.UID) || !w.Restored || !w.Inherits {
		problems = append(problems, fmt.Sprintf("block %s is inherited, but must not be", b.Name))
	}
	for _, e := range w.Block.Spec.Entries {
		if e.State == v1.AddressResting && slices.ContainsFunc(s.Blocks, func(other *v1.AddressBlock) bool {
			return slices.ContainsFunc(other.Spec.Entries, func(later v1.AddressEntry) bool {
				return later.State != v1.AddressResting && later.Pod == e.Pod && later.Owner == e.Owner
			})
		}) && slices.Contains(b.Spec.Entries, e) {
			continue
		}
		if e.State != v1.AddressReserved || e.PodUID != "" || e.Since.After(s.Now) || !slices.ContainsFunc(b.Spec.Entries, func(was v1.AddressEntry) bool {
			return was.Address == e.Address && was.Pod == e.Pod && was.Owner == e.Owner
		}) {
			problems = append(problems, fmt.Sprintf("%s of block %s is not kept for the pod that had it", e.Address, b.Name))
		}
	}
	return problems
}
