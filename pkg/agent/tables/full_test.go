package tables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// State is the input of Full. The order of its lists does not matter. No two Pods, Networks or
// Nodes share a name, and no two Ports an interface.
type State struct {
	// Self is the name of this node, Local its address while Nodes has none.
	Self     string
	Local    netip.Addr
	Pods     []dataplane.Pod
	Networks []dataplane.Network
	Nodes    []dataplane.Node
	Ports    []LocalPort
}

// Full computes the whole contents and the problems, slowly and plainly. Tests compare Desired
// with it.
func Full(s State) (Tables, []string) {
	t, problems, local, known := Empty(), []string(nil), s.Local, false
	for _, n := range s.Nodes {
		if n.Name == s.Self && len(n.Addresses) > 0 {
			local, known = n.Addresses[0], true
		}
	}
	if !known {
		problems = append(problems, fmt.Sprintf(problemSelf, s.Self))
	}
	vteps, unreachable := map[string]netip.Addr{}, map[string]bool{}
	for _, n := range s.Nodes {
		if n.Name == s.Self || !local.IsValid() {
			continue
		}
		for _, a := range slices.Backward(n.Addresses) {
			if a.Is4() == local.Is4() {
				vteps[n.Name] = a
			}
		}
		if a, ok := vteps[n.Name]; ok && a != local {
			t.Nodes[a] = struct{}{}
		} else {
			delete(vteps, n.Name)
			unreachable[n.Name] = len(n.Addresses) > 0
		}
	}
	networks := slices.SortedFunc(slices.Values(s.Networks), func(a, b dataplane.Network) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	first := map[int32]string{}
	for _, n := range networks {
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
		content := Network{MTU: n.MTU, Gateway: n.Gateway}
		for _, p := range s.Ports {
			if p.VNI == n.VNI && n.Gateway.IsValid() {
				content.Router = max(content.Router, p.Interface)
			}
		}
		t.Networks[n.VNI] = content
		if content.Router != 0 {
			t.Ports[content.Router] = Port{n.VNI, dataplane.GatewayMAC(n.VNI), n.Gateway, true}
		}
		byIP, byMAC := map[netip.Addr]string{}, map[dataplane.MAC]string{}
		for _, m := range members {
			holder, what := byIP[m.IP], "address "+m.IP.String()
			if holder == "" {
				holder, what = byMAC[m.MAC], "MAC address "+m.MAC.String()
			}
			if holder != "" {
				problems = append(problems, fmt.Sprintf(problemClaims, full, m.pod.Name, holder, what, holder))
				continue
			}
			byIP[m.IP], byMAC[m.MAC] = m.pod.Name, m.pod.Name
			place := Place{IP: m.IP, Node: vteps[m.pod.Node]}
			for _, p := range s.Ports {
				if m.pod.Node == s.Self && p.VNI == 0 && p.Pod == m.pod.UID && p.Namespace == n.Namespace && p.Network == n.Name {
					place.Interface = max(place.Interface, p.Interface)
				}
			}
			if place.Interface != 0 {
				t.Ports[place.Interface] = Port{VNI: n.VNI, MAC: m.MAC, IP: m.IP}
			}
			if place.Interface != 0 || place.Node.IsValid() {
				t.Places[PlaceKey{n.VNI, m.MAC}] = place
			}
			if unreachable[m.pod.Node] {
				problems = append(problems, fmt.Sprintf(problemNode, m.pod.Node, local))
			}
		}
	}
	slices.Sort(problems)
	return t, slices.Compact(problems)
}

// memberOf a Network.
type member struct {
	pod dataplane.Pod
	dataplane.Attachment
}

// membersOf returns the pods of the Network whose addresses count, the newest first. It also
// returns whether the Network is on this node.
func membersOf(s State, n dataplane.Network) (members []member, here bool) {
	for _, p := range s.Pods {
		for _, a := range p.Attachments {
			if p.Namespace == n.Namespace && a.Network == n.Name && n.CIDR.Contains(a.IP) && a.IP != n.Gateway && a.MAC != dataplane.GatewayMAC(n.VNI) {
				members = append(members, member{p, a})
				here = here || p.Node == s.Self
			}
		}
	}
	for _, p := range s.Ports {
		here = here || p.VNI == 0 && p.Namespace == n.Namespace && p.Network == n.Name
	}
	slices.SortFunc(members, func(a, b member) int {
		if c := b.pod.Created.Compare(a.pod.Created); c != 0 {
			return c
		}
		return strings.Compare(string(b.pod.UID), string(a.pod.UID))
	})
	return members, here
}
