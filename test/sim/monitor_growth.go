package sim

import (
	"encoding/json"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
)

// onEdge is S2 of a Network whose CIDR grew: no address is bound that is the network or
// broadcast address in the prefix that a live pod of the Network has, by its annotation.
func onEdge(s *Cluster) string {
	for _, pod := range apiserver.List[*corev1.Pod](s.Server, "pods") {
		if !live(pod) {
			continue
		}
		for name, prefix := range prefixes(pod) {
			for _, block := range apiserver.List[*v1.AddressBlock](s.Server, "addressblocks") {
				for _, e := range block.Spec.Entries {
					address, err := netip.ParseAddr(e.Address)
					if err != nil || block.Spec.Network != name || e.State != v1.AddressBound || !prefix.Contains(address) {
						continue
					}
					hosts := prefix.Addr().BitLen() - prefix.Bits()
					first := !prefix.Contains(address.Prev())
					last := !prefix.Contains(address.Next()) && address.Is4()
					if hosts >= 2 && (first || last) {
						return fmt.Sprintf("S2: %s of Network %s is bound to %s, and is network or broadcast address for %s, which has %s", e.Address, name, e.Pod, pod.Name, prefix)
					}
				}
			}
		}
	}
	return ""
}

// prefixes is the address of a pod by Network, with the length of its prefix.
func prefixes(pod *corev1.Pod) map[string]netip.Prefix {
	var raw map[string]struct {
		Address string `json:"address"`
	}
	_ = json.Unmarshal([]byte(pod.Annotations[v1.AddressesAnnotation]), &raw)
	all := map[string]netip.Prefix{}
	for network, a := range raw {
		if prefix, err := netip.ParsePrefix(a.Address); err == nil {
			all[network] = prefix
		}
	}
	return all
}
