package model

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/pod2"
)

// checkEnd says what is not as it should be when nothing is left to happen.
func (m *machine) checkEnd(s *state) {
	m.setStage(s.ticks, &s.control[0])
	for k := range kinds {
		m.stage.indexers[k].objects = s.shown(k, m.watched)
	}
	m.controller.Remember(Memory{})
	for _, key := range m.config.Keys {
		if why := m.controller.Converged(key); why != "" {
			m.complain(fmt.Sprintf("L1: %s is not converged: %s", key, why))
		}
	}
	// S9
	for _, o := range s.server[Blocks] {
		block := o.value.(*v1.AddressBlock)
		n, _ := find[*v1.Network](s, Networks, block.Spec.Network)
		waits := n == nil && len(block.OwnerReferences) == 0 // it was restored, and its Network is yet to be
		if (n == nil || n.UID != block.Spec.NetworkUID) && !waits && !heldByLive(s, block) {
			m.complain(fmt.Sprintf("S9: block %s of a Network that is gone is left: %s", block.Name, blockText(block)))
		}
		for _, e := range block.Spec.Entries {
			pod, found := find[*corev1.Pod](s, Pods, e.Pod)
			if e.State == v1.AddressBound && !waits && (!found || pod.UID != e.PodUID) {
				m.complain(fmt.Sprintf("S9: %s is bound to %s, which is gone", e.Address, e.Pod))
			}
		}
	}
	for _, o := range s.server[Pods] {
		pod := o.value.(*corev1.Pod)
		for _, r := range m.waitsInVain(s, pod) {
			m.complain(fmt.Sprintf("L1: pod %s waits, and Network %s has an address that nobody holds", pod.Name, r))
		}
		// what a live pod publishes, the ledger has
		if live(pod) {
			for name, a := range attachment.Published(pod) {
				if !recorded(s, pod, name, a.Address.Addr()) {
					m.complain(fmt.Sprintf("S8: pod %s publishes %s of Network %s, and the ledger does not say so", pod.Name, a.Address.Addr(), name))
				}
			}
		}
	}
	for _, o := range s.server[Pod2s] {
		m.checkReplicas(s, o.value.(*v1.Pod2))
	}
	if m.config.End != nil {
		m.complain(m.config.End(&World{m, s}))
	}
}

func find[T any](s *state, k Kind, name string) (value T, found bool) {
	if _, o := s.find(k, name); o != nil {
		return any(o.value).(T), true
	}
	return value, false
}

func heldByLive(s *state, block *v1.AddressBlock) bool {
	for _, e := range block.Spec.Entries {
		if pod, found := find[*corev1.Pod](s, Pods, e.Pod); found && pod.UID == e.PodUID && live(pod) {
			return true
		}
	}
	return false
}

// recorded says whether a ledger of that name binds the address to the pod.
func recorded(s *state, pod *corev1.Pod, name string, addr netip.Addr) bool {
	for _, o := range s.server[Blocks] {
		block := o.value.(*v1.AddressBlock)
		for _, e := range block.Spec.Entries {
			if block.Spec.Network == name && e.Address == addr.String() && e.State == v1.AddressBound && e.PodUID == pod.UID {
				return true
			}
		}
	}
	return false
}

// waitsInVain are the Networks that a pod waits for although they are to be had and
// have an address that no pod holds and that is kept for nobody.
func (m *machine) waitsInVain(s *state, pod *corev1.Pod) []string {
	requests, waits := network.Wants(pod)
	if !waits {
		return nil
	}
	var names []string
	for _, r := range requests {
		n, found := find[*v1.Network](s, Networks, r.Network)
		if !found || n.DeletionTimestamp != nil || network.AwaitsBlocks(n, m.now(s)) > 0 {
			return nil
		}
		pool, err := network.Pool(n)
		if err != nil {
			return nil
		}
		taken := map[string]bool{}
		for _, o := range s.server[Blocks] {
			for _, e := range o.value.(*v1.AddressBlock).Spec.Entries {
				// of the Network that is, or held by a pod that can use it
				if block := o.value.(*v1.AddressBlock); block.Spec.Network == n.Name && (block.Spec.NetworkUID == n.UID || heldByLive(s, block)) && (e.Pod != pod.Name || e.State == v1.AddressReserved && e.Owner != attachment.Owner(pod)) {
					taken[e.Address] = true
				}
			}
		}
		first, ok := pool.First()
		free := r.Address.IsValid() && pool.Refusal(r.Address) == "" && !taken[r.Address.String()] // set aside, perhaps
		for addr := first; ok; addr, ok = pool.Next(addr.Next()) {
			if !taken[addr.String()] && (!r.Address.IsValid() || r.Address == addr) {
				free = true
				break
			}
		}
		if !free {
			return nil
		}
		names = append(names, r.Network)
	}
	return names
}

// awaitsAvailable: time has yet to pass until a replica is available.
func (m *machine) awaitsAvailable(s *state, p *v1.Pod2) bool {
	return slices.ContainsFunc(s.server[Pods], func(o *object) bool {
		pod := o.value.(*corev1.Pod)
		return metav1.IsControlledBy(pod, p) && podReady(pod) && !m.available(s, p, pod)
	})
}

// checkReplicas: every replica is there, of the template of the spec.
func (m *machine) checkReplicas(s *state, p *v1.Pod2) {
	if p.DeletionTimestamp != nil {
		return
	}
	defaulted := pod2.Defaulted(p)
	for place := range pod2.Ordinals(defaulted).Count() {
		name := ordinals.Name(p.Name, pod2.Ordinals(defaulted).At(place))
		pod, found := find[*corev1.Pod](s, Pods, name)
		ref := (*metav1.OwnerReference)(nil)
		if found {
			ref = metav1.GetControllerOfNoCopy(pod)
		}
		switch {
		case !found:
			m.complain("L1: " + name + " is missing")
		case ref == nil || ref.UID != p.UID:
			m.complain("L1: " + name + " is not of its Pod2")
		case pod.Labels[v1.PodTemplateHashLabel] != pod2.RevisionHash(p) && !m.awaitsAvailable(s, p):
			m.complain("L1: " + name + " is of another template")
		case m.config.Ready && !podReady(pod) && !attachment.Over(pod):
			m.complain("L1: " + name + " is not ready")
		}
	}
	if p.Status.ObservedGeneration != p.Generation {
		m.complain("L5: the generation of " + p.Name + " is not observed")
	}
}
