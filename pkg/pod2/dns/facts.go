package dns

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/plan"
)

// Facts have the addresses that pods publish. They depend on that version of the pod only. So a
// program that decides again and again parses each annotation once.
type Facts []*fact

// fact is about one version of a pod.
type fact struct {
	pod *corev1.Pod
	// addresses that the pod publishes, in the order of the Networks' names. Those that no
	// Network hands out are left out: a user wrote such an address into the annotation.
	// EndpointSlices refuse them, so one of them would block the write of 99 others.
	addresses []address
}

type address struct {
	network string
	is      netip.Addr
}

// Of returns the facts of pods, in their order, see plan.Again.
func (earlier Facts) Of(pods []*corev1.Pod) Facts { return plan.Again(earlier, pods, factOf) }

// Of returns the pod.
func (f *fact) Of() *corev1.Pod { return f.pod }

func factOf(pod *corev1.Pod) *fact {
	published := attachment.Published(pod)
	f := &fact{pod: pod, addresses: make([]address, 0, len(published))}
	for _, network := range slices.Sorted(maps.Keys(published)) {
		a := published[network].Address.Addr()
		if a.IsValid() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() {
			f.addresses = append(f.addresses, address{network, a})
		}
	}
	return f
}

// address returns the address on a Network.
func (f *fact) address(network string) (netip.Addr, bool) {
	for _, a := range f.addresses {
		if a.network == network {
			return a.is, true
		}
	}
	return netip.Addr{}, false
}
