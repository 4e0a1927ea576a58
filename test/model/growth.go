package model

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// boundToAnEdge: S2, no address is handed out that is the network or broadcast address
// for a pod that lives, whatever the Network's CIDR is by now.
func boundToAnEdge(s, next *state, name string) string {
	was, _ := find[*v1.AddressBlock](s, Blocks, name)
	is, found := find[*v1.AddressBlock](next, Blocks, name)
	if !found {
		return ""
	}
	for _, e := range is.Spec.Entries {
		if e.State != v1.AddressBound || was != nil && slices.Contains(was.Spec.Entries, e) {
			continue
		}
		for pod, prefix := range livePrefixes(s, is.Spec.Network) {
			if edge(prefix, netip.MustParseAddr(e.Address)) {
				return fmt.Sprintf("S2: %s is bound to %s, and is network or broadcast address for %s, which runs with %s", e.Address, e.Pod, pod, prefix)
			}
		}
	}
	return ""
}

// edgeOfAnother: S2, no pod begins to run with a prefix in which the address of another
// one, bound or published, is the network or broadcast address.
func edgeOfAnother(s *state, name string, pod *corev1.Pod) string {
	prefix := attachment.Published(pod)[name].Address
	for _, o := range s.server[Blocks] {
		block := o.value.(*v1.AddressBlock)
		for _, e := range block.Spec.Entries {
			if block.Spec.Network == name && e.State == v1.AddressBound && edge(prefix, netip.MustParseAddr(e.Address)) {
				return fmt.Sprintf("S2: %s runs with %s, in which %s of %s is network or broadcast address", pod.Name, prefix, e.Address, e.Pod)
			}
		}
	}
	return ""
}

func livePrefixes(s *state, name string) map[string]netip.Prefix {
	all := map[string]netip.Prefix{}
	for _, o := range s.server[Pods] {
		pod := o.value.(*corev1.Pod)
		if published, ok := attachment.Published(pod)[name]; ok && live(pod) {
			all[pod.Name] = published.Address
		}
	}
	return all
}

// edge is arithmetic of its own, of IPv4: the model has no other.
func edge(prefix netip.Prefix, addr netip.Addr) bool {
	return prefix.Bits() <= 30 && prefix.Contains(addr) && (!prefix.Contains(addr.Prev()) || !prefix.Contains(addr.Next()))
}
