package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// member is a pod on a Network.
type member struct {
	pod  *Pod
	ip   netip.Addr
	mac  MAC
	bits int
}

// claims returns the pods of each Network that may be on this node, in the order of their
// addresses. No two pods of a Network share an address or a MAC address. Networks without
// a pod or a port on this node are skipped: in a large cluster those are most Networks.
//
// The controller never gives one address to two live pods. If two pods publish the same
// address nevertheless, the newer pod gets it: the older one is probably about to go.
// Two kinds of pods do not count. The address of one lies outside the Network: an earlier
// Network with the same name published it. The other claims the gateway's address.
func (w *wanted) claims() map[int32][]member {
	byName := map[[2]string]*Network{}
	for i := range w.networks {
		byName[[2]string{w.networks[i].Namespace, w.networks[i].Name}] = &w.networks[i]
	}
	all := map[int32][]member{}
	w.eachClaim(byName, func(pod *Pod) bool { return pod.Node == w.Node }, func(n *Network, _ member) { all[n.VNI] = nil })
	for _, n := range w.networks {
		if len(w.Host.guests(n.VNI)) > 0 {
			all[n.VNI] = nil
		}
	}
	for name, n := range byName {
		if _, concerned := all[n.VNI]; !concerned {
			delete(byName, name)
		}
	}
	w.eachClaim(byName, func(*Pod) bool { return true }, func(n *Network, m member) { all[n.VNI] = append(all[n.VNI], m) })
	for _, n := range byName {
		all[n.VNI] = w.settle(*n, all[n.VNI])
	}
	return all
}

// eachClaim calls each for every attachment of such a pod to one of the Networks.
func (w *wanted) eachClaim(networks map[[2]string]*Network, of func(*Pod) bool, each func(*Network, member)) {
	for i := range w.Pods {
		pod := &w.Pods[i]
		if !of(pod) {
			continue
		}
		for _, a := range pod.Attachments {
			n := networks[[2]string{pod.Namespace, a.Network}]
			if n != nil && n.CIDR.Contains(a.IP) && a.IP != n.Gateway && a.MAC != GatewayMAC(n.VNI) {
				each(n, member{pod, a.IP, a.MAC, a.Bits})
			}
		}
	}
}

func (w *wanted) settle(n Network, claimed []member) []member {
	byIP, byMAC := make(map[netip.Addr]*Pod, len(claimed)), make(map[MAC]*Pod, len(claimed))
	for _, m := range claimed {
		byIP[m.ip], byMAC[m.mac] = m.pod, m.pod
	}
	if len(byIP) < len(claimed) || len(byMAC) < len(claimed) {
		claimed = w.arbitrate(n, claimed)
	}
	slices.SortFunc(claimed, func(a, b member) int { return a.ip.Compare(b.ip) })
	return claimed
}

// arbitrate returns the members that keep their claims.
func (w *wanted) arbitrate(n Network, claimed []member) []member {
	// The newest comes first, so a later claim in the list loses.
	slices.SortFunc(claimed, func(a, b member) int {
		return cmp.Or(b.pod.Created.Compare(a.pod.Created), strings.Compare(string(b.pod.UID), string(a.pod.UID)), a.ip.Compare(b.ip))
	})
	byIP, byMAC := map[netip.Addr]*Pod{}, map[MAC]*Pod{}
	settled := claimed[:0]
	for _, m := range claimed {
		holder, what := byIP[m.ip], "address "+m.ip.String()
		if holder == nil {
			holder, what = byMAC[m.mac], "MAC address "+m.mac.String()
		}
		if holder != nil {
			w.problem("Network %s/%s: pods %s and %s both have %s; the newer pod, %s, receives its packets", n.Namespace, n.Name, m.pod.Name, holder.Name, what, holder.Name)
			continue
		}
		byIP[m.ip], byMAC[m.mac] = m.pod, m.pod
		settled = append(settled, m)
	}
	return settled
}

// owners returns the pod of each port of this node, by interface. An interface has no
// owner if CNI recorded it for two live pods.
func (w *wanted) owners() map[string]Port {
	here := map[types.UID]bool{}
	for _, pod := range w.Pods {
		if pod.Node == w.Node {
			here[pod.UID] = true
		}
	}
	owners, disputed := map[string]Port{}, map[string]bool{}
	for _, p := range w.Ports {
		owner, taken := owners[p.Interface]
		switch {
		case !here[p.PodUID]:
		case taken && owner.PodUID != p.PodUID:
			w.problem("interface %s: CNI recorded it for two live pods (UIDs %s and %s); all its packets are dropped", p.Interface, min(owner.PodUID, p.PodUID), max(owner.PodUID, p.PodUID))
			disputed[p.Interface] = true
		case !taken || cmp.Or(p.Made.Compare(owner.Made), strings.Compare(p.Bridge, owner.Bridge)) > 0:
			owners[p.Interface] = p
		}
	}
	for name := range disputed {
		delete(owners, name)
	}
	return owners
}

func (w *wanted) problem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}
