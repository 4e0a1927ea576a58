package tables

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// State is the input of Full. The order of its lists does not matter. No two Pods or Slices
// share a name, and no two Ports an interface.
type State struct {
	// Local is the last address of this node.
	Local  netip.Addr
	Pods   []dataplane.Pod // of this node
	Slices []dataplane.Slice
	Ports  []LocalPort
	// Transits are the IPv4 transit addresses of Ports, from Range4.
	Transits map[PortKey]netip.Addr
	Range4   netip.Prefix
}

// Full computes the whole contents and the problems, slowly and plainly. Tests compare Desired
// with it.
func Full(s State) (Tables, []string) {
	t, problems := Empty(), []string(nil)
	reaches := func(host netip.Addr) bool {
		return s.Local.IsValid() && host.Is4() == s.Local.Is4() && host != s.Local
	}
	for _, slice := range s.Slices {
		for _, l := range slice.Locations {
			if slice.Network == "" && reaches(l.Host) {
				t.Nodes[l.Host] = struct{}{}
			}
		}
	}
	first := map[int32]string{}
	for _, head := range heads(s.Slices) {
		n := *head.Overlay
		full := n.Namespace + "/" + n.Name
		if other, taken := first[n.VNI]; taken {
			problems = append(problems, fmt.Sprintf(problemVNI, other, full, n.VNI))
			continue
		}
		first[n.VNI] = full
		members, here := membersOf(s, n)
		if !here {
			continue
		}
		t.Networks[n.VNI] = NetworkOf(&n)
		byIP, byMAC, addresses := map[netip.Addr]string{}, map[dataplane.MAC]string{}, map[dataplane.MAC][]netip.Addr{}
		for _, m := range members {
			holder, what := byIP[m.IP], "address "+m.IP.String()
			if holder == "" {
				holder, what = byMAC[m.MAC], "MAC address "+m.MAC.String()
			}
			if holder != "" {
				problems = append(problems, fmt.Sprintf(problemClaims, full, m.pod.Name, holder, what, holder))
				continue
			}
			byIP[m.IP], byMAC[m.MAC], addresses[m.MAC] = m.pod.Name, m.pod.Name, []netip.Addr{m.IP}
			place := Place{IP: AddressOf(m.IP)}
			for _, p := range s.Ports {
				if p.Pod == m.pod.UID && p.Namespace == n.Namespace && p.Network == n.Name {
					place.Interface = max(place.Interface, p.Interface)
				}
			}
			if place.Interface != 0 {
				port := Port{VNI: n.VNI, MAC: m.MAC, IP: AddressOf(m.IP), Transit: AddressOf(s.Transits[place.Interface])}
				if m.IP.Is6() {
					port.Transit = AddressOf(netip.MustParseAddr(fmt.Sprintf("fd64:706f:6432::%x:%x", place.Interface>>16, place.Interface&0xffff)))
				}
				t.Ports[place.Interface] = port
				if port.Transit != (Address{}) {
					t.Transits[port.Transit.Addr()] = place.Interface
				} else if s.Range4.IsValid() {
					problems = append(problems, fmt.Sprintf(problemPort, place.Interface, n.Namespace, n.Name))
				}
				t.Places[PlaceKey{VNI: n.VNI, MAC: m.MAC}] = place
			}
		}
		entries := map[netip.Addr]dataplane.Slice{} // the slice that counts, by address
		hosts := map[netip.Addr]netip.Addr{}
		for _, slice := range s.Slices {
			for _, l := range slice.Locations {
				_, local := byIP[l.Address]
				if slice.Namespace != n.Namespace || slice.Network != n.Name || slice.Owner != head.Owner || local || !n.CIDR.Contains(l.Address) || l.Address == n.Gateway {
					continue
				}
				if s.Local.IsValid() && l.Host.Is4() != s.Local.Is4() {
					problems = append(problems, fmt.Sprintf(problemFamily, full, l.Host, s.Local))
				}
				if reaches(l.Host) && slice.Name >= entries[l.Address].Name {
					entries[l.Address], hosts[l.Address] = slice, l.Host
				}
			}
		}
		for _, address := range slices.SortedFunc(maps.Keys(hosts), netip.Addr.Compare) {
			mac := dataplane.MACOf(address)
			if addresses[mac] = append(addresses[mac], address); len(addresses[mac]) == 1 {
				t.Places[PlaceKey{VNI: n.VNI, MAC: mac}] = Place{IP: AddressOf(address), Node: AddressOf(hosts[address])}
			}
		}
		for mac, list := range addresses {
			if len(list) > 1 {
				problems = append(problems, fmt.Sprintf(problemMAC, full, list[0], list[1], mac))
			}
		}
	}
	slices.Sort(problems)
	return t, slices.Compact(problems)
}

// heads are the slices with the properties of Networks, in the order of the Networks' names. Of a
// Network with several, it is the one with the highest name.
func heads(all []dataplane.Slice) (list []dataplane.Slice) {
	for _, s := range all {
		higher := func(other dataplane.Slice) bool {
			return other.Overlay != nil && other.Namespace == s.Namespace && other.Network == s.Network && other.Name > s.Name
		}
		if s.Overlay != nil && !slices.ContainsFunc(all, higher) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b dataplane.Slice) int {
		return strings.Compare(a.Namespace+"/"+a.Network, b.Namespace+"/"+b.Network)
	})
	return list
}

// memberOf a Network.
type member struct {
	pod dataplane.Pod
	dataplane.Attachment
}

// membersOf returns the pods of the Network on this node whose addresses count, the newest first. It also
// returns whether the Network is on this node.
func membersOf(s State, n dataplane.Network) (members []member, here bool) {
	for _, p := range s.Pods {
		for _, a := range p.Attachments {
			if p.Namespace == n.Namespace && a.Network == n.Name && n.CIDR.Contains(a.IP) && a.IP != n.Gateway && a.MAC != dataplane.GatewayMAC(n.VNI) {
				members, here = append(members, member{p, a}), true
			}
		}
	}
	for _, p := range s.Ports {
		here = here || p.Namespace == n.Namespace && p.Network == n.Name
	}
	slices.SortFunc(members, func(a, b member) int {
		if c := b.pod.Created.Compare(a.pod.Created); c != 0 {
			return c
		}
		return strings.Compare(string(b.pod.UID), string(a.pod.UID))
	})
	return members, here
}
