package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
)

// Live says whether a pod may use its addresses: it does not have Pod2's scheduling gate,
// and has not terminated. A pod that is being deleted may still use them.
func Live(pod *corev1.Pod) bool {
	gated := slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == v1.AddressesGate })
	return !gated && !over(pod)
}

// Published returns the address that the pod's annotation publishes on each Network, with
// its prefix length. It repeats the controller's reading on purpose, in separate code. If
// any part of the annotation cannot be read, the result is nil.
func Published(pod *corev1.Pod) map[string]netip.Prefix {
	var answer map[string]struct {
		Address netip.Prefix `json:"address"`
	}
	if text := pod.Annotations[v1.AddressesAnnotation]; text == "" || json.Unmarshal([]byte(text), &answer) != nil {
		return nil
	}
	all := make(map[string]netip.Prefix, len(answer))
	for network, a := range answer {
		if !a.Address.IsValid() || a.Address.Addr().Is4In6() {
			return nil
		}
		all[network] = a.Address
	}
	return all
}

// Held is an address of a Network that a live pod holds.
type Held struct {
	Namespace, Network string
	Address            netip.Addr
}

// Holds returns the addresses that a pod holds, in the order of the Networks' names. A pod
// that is not live holds none.
func Holds(pod *corev1.Pod) []Held {
	if !Live(pod) {
		return nil
	}
	published := Published(pod)
	all := make([]Held, 0, len(published))
	for _, network := range slices.Sorted(maps.Keys(published)) {
		all = append(all, Held{pod.Namespace, network, published[network].Addr()})
	}
	return all
}

// Holders maps each held address to the name of the live pod that holds it.
type Holders map[Held]string

// Add is S1: no two live pods hold one address of one Network.
func (h Holders) Add(pod string, holds []Held) string {
	for _, held := range holds {
		if other, taken := h[held]; taken {
			return fmt.Sprintf("S1: %s of Network %s is held by %s and %s", held.Address, held.Namespace+"/"+held.Network, other, pod)
		}
		h[held] = pod
	}
	return ""
}

// SharedAddress checks S1 for all these pods.
func SharedAddress(pods []*corev1.Pod) string {
	holders := Holders{}
	for _, pod := range pods {
		if why := holders.Add(pod.Name, Holds(pod)); why != "" {
			return why
		}
	}
	return ""
}

// Unusable says why no pod may get an address of a Network, "" if a pod may. Unusable are
// addresses outside the CIDR, network and broadcast addresses of the present and earlier
// CIDRs, the gateway, and excluded addresses.
func Unusable(n *v1.Network, text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return "is not an address"
	}
	cidr, err := netip.ParsePrefix(n.Spec.CIDR)
	switch {
	case err != nil || !cidr.Contains(address):
		return "is outside " + n.Spec.CIDR
	case isEdge(cidr, address):
		return "is the network or broadcast address of " + n.Spec.CIDR
	case text == gateway(n):
		return "is the gateway"
	case within(n.Spec.Exclude, address):
		return "is excluded"
	}
	for _, former := range n.Status.CIDRs {
		if cidr, err := netip.ParsePrefix(former); err == nil && isEdge(cidr, address) {
			return "was the network or broadcast address of " + former
		}
	}
	return ""
}

// gateway returns the gateway in force: the declared one, or the one chosen when the
// Network was new. The annotation may be that of another Network, copied.
func gateway(n *v1.Network) string {
	chosen, marked := n.Annotations[v1.GatewayAnnotation]
	switch {
	case n.Spec.Gateway != "":
		return n.Spec.Gateway
	case n.Status.ObservedGeneration > 0:
		return n.Status.Gateway
	}
	cidr, err := ipam.CheckCIDR(n.Spec.CIDR)
	if err != nil {
		return ""
	}
	if address, err := netip.ParseAddr(chosen); marked && err == nil && cidr.Contains(address) && !isEdge(cidr, address) {
		return chosen
	}
	first, _ := ipam.DefaultGateway(cidr)
	return first.String()
}

// isEdge says whether an address is the network or broadcast address for a pod that runs
// with this prefix. IPv6 has no broadcast address. Every address of a /31 or /32 is a
// host's.
func isEdge(prefix netip.Prefix, address netip.Addr) bool {
	if prefix.Addr().BitLen()-prefix.Bits() < 2 || !prefix.Contains(address) {
		return false
	}
	return !prefix.Contains(address.Prev()) || address.Is4() && !prefix.Contains(address.Next())
}

func within(ranges []v1.AddressRange, address netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r v1.AddressRange) bool {
		first, last, isRange := strings.Cut(string(r), "-")
		if isRange {
			from, err := netip.ParseAddr(first)
			to, errTo := netip.ParseAddr(last)
			return err == nil && errTo == nil && !address.Less(from) && !to.Less(address)
		}
		prefix, err := netip.ParsePrefix(first)
		return err == nil && prefix.Contains(address) || first == address.String()
	})
}

// HandedOut is S2: a write of an AddressBlock binds only addresses that a pod may get by
// one of these versions of the Network. There are two exceptions. An address that a live
// pod publishes is written back to that pod, even if the Network has changed. A pod may get
// an address that was reserved for it.
func HandedOut(was, is *v1.AddressBlock, networks []*v1.Network, pods []*corev1.Pod) string {
	had := map[string]bool{}
	if was != nil {
		for _, e := range was.Spec.Entries {
			had[e.Address] = true
		}
	}
	for _, e := range is.Spec.Entries {
		pod := named(pods, e.Pod)
		writtenBack := pod != nil && pod.UID == e.PodUID && Live(pod) && Published(pod)[is.Spec.Network].Addr().String() == e.Address
		if e.State != v1.AddressBound || had[e.Address] || writtenBack {
			continue
		}
		why := "belongs to no Network"
		for _, n := range networks {
			if why = Unusable(n, e.Address); why == "" {
				break
			}
		}
		if why != "" {
			return fmt.Sprintf("S2: %s of Network %s is handed out to %s, but it %s", e.Address, is.Spec.Network, e.Pod, why)
		}
	}
	return ""
}

// OnEdge is S2 of Networks whose CIDR grew: no bound address is the network or broadcast
// address in the prefix with which a live pod of the Network runs.
func OnEdge(blocks []*v1.AddressBlock, pods []*corev1.Pod) string {
	for _, pod := range pods {
		if !Live(pod) {
			continue
		}
		for network, prefix := range Published(pod) {
			for _, b := range blocks {
				if b.Spec.Network != network || b.Namespace != pod.Namespace {
					continue
				}
				for _, e := range b.Spec.Entries {
					if address, err := netip.ParseAddr(e.Address); err == nil && e.State == v1.AddressBound && isEdge(prefix, address) {
						return fmt.Sprintf("S2: %s of Network %s is bound to %s, but it is the network or broadcast address for %s, which has %s", address, network, e.Pod, pod.Name, prefix)
					}
				}
			}
		}
	}
	return ""
}

// Replica is a replica of a Pod2 on a Network.
type Replica struct {
	Pod2    types.UID
	Pod     string
	Network types.UID
}

// Kept holds the last seen address of each replica.
type Kept map[Replica]netip.Addr

// See is S3: a live replica still has its earlier address.
func (k Kept) See(r Replica, pod *corev1.Pod, held Held) string {
	before := k[r]
	k[r] = held.Address
	return Moved(pod, held, before)
}

// Moved is S3 of one replica: it keeps its earlier address, unless the pod's annotation
// requests the new one.
func Moved(pod *corev1.Pod, held Held, before netip.Addr) string {
	asks := strings.Contains(strings.ReplaceAll(pod.Annotations[v1.NetworksAnnotation], " ", "")+",", "="+held.Address.String()+",")
	if !before.IsValid() || before == held.Address || asks {
		return ""
	}
	return fmt.Sprintf("S3: %s had %s of Network %s, and now has %s", pod.Name, before, held.Network, held.Address)
}

// InUse is S8: a Network that is removed has no address bound to a pod that has not
// terminated.
func InUse(n *v1.Network, blocks []*v1.AddressBlock, pods []*corev1.Pod) string {
	c := Cluster{Pods: pods}
	for _, b := range blocks {
		for _, e := range b.Spec.Entries {
			if b.Spec.NetworkUID == n.UID && c.holder(e) != nil {
				return fmt.Sprintf("S8: Network %s is removed while its address %s is bound to %s", n.Name, e.Address, e.Pod)
			}
		}
	}
	return ""
}

// Unsealed guards S8 when no other client creates an AddressBlock at the same moment: all
// AddressBlocks of a Network that is removed are sealed.
func Unsealed(n *v1.Network, blocks []*v1.AddressBlock) string {
	for _, b := range blocks {
		if b.Spec.NetworkUID == n.UID && !b.Spec.Sealed {
			return fmt.Sprintf("S8: Network %s is removed while AddressBlock %s is not sealed", n.Name, b.Name)
		}
	}
	return ""
}

// BoundForNobody is S8 from the other side: no write of an AddressBlock adds an entry that
// binds an address to a live pod if the Network is gone. n is the Network with this name,
// nil if there is none.
func BoundForNobody(was, is *v1.AddressBlock, n *v1.Network, pods []*corev1.Pod) string {
	if n != nil && n.UID == is.Spec.NetworkUID {
		return ""
	}
	c := Cluster{Pods: pods}
	for _, e := range is.Spec.Entries {
		if e.State == v1.AddressBound && c.holder(e) != nil && (was == nil || !slices.Contains(was.Spec.Entries, e)) {
			return fmt.Sprintf("S8: %s is bound to %s in an AddressBlock of a Network that is gone", e.Address, e.Pod)
		}
	}
	return ""
}
