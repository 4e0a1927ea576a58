//go:build linux && kernel

package node

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// tell the node all records, as its watches do.
func (n *labNode) tell() {
	n.Helper()
	n.event(func() {
		nodes := dataplane.Slice{Name: "nodes.0"}
		for _, x := range n.addressed {
			if x.name == n.name {
				n.node.SetNode(x.addresses)
			}
			for _, a := range x.addresses {
				nodes.Locations = append(nodes.Locations, dataplane.Location{Address: a, Host: x.addresses[0]})
			}
		}
		slices.SortFunc(nodes.Locations, dataplane.Location.Compare)
		n.node.SetSlice(nodes)
		for _, x := range n.state.Networks {
			n.node.SetSlice(dataplane.Slice{Namespace: x.Namespace, Network: x.Name, Name: x.Name + "-0", Overlay: &x})
		}
		for _, x := range n.pods {
			n.set(x)
		}
	})
}

// set the record of a pod. Each pod of the lab has its own slices.
func (n *labNode) set(p dataplane.Pod) {
	for _, s := range n.slicesOf(p) {
		n.node.SetSlice(s)
	}
	if p.Node == n.name {
		n.node.SetPod(p)
	}
}

// slicesOf a pod, one for each Network. As long as the addresses of its node are unknown, the controller writes none.
func (n *labNode) slicesOf(p dataplane.Pod) (list []dataplane.Slice) {
	i := slices.IndexFunc(n.addressed, func(x addressed) bool { return x.name == p.Node })
	if i < 0 {
		return nil
	}
	for _, a := range p.Attachments {
		location := dataplane.Location{Address: a.IP, Host: n.addressed[i].addresses[0]}
		list = append(list, dataplane.Slice{Namespace: p.Namespace, Network: a.Network, Name: a.Network + "-" + p.Name, Locations: []dataplane.Location{location}})
	}
	return list
}

func (n *labNode) tellPod(p *labPod) {
	n.Helper()
	n.event(func() { n.set(p.record()) })
}

// lose a pod: the API server has deleted it.
func (n *labNode) lose(p *labPod) {
	n.Helper()
	n.event(func() {
		for _, s := range n.slicesOf(p.record()) {
			n.node.DeleteSlice(s)
		}
		n.node.DeletePod("default", p.name, types.UID("u-"+p.name))
	})
}

// cluster is the input of package dataplane, without the state of the kernel.
func (n *labNode) cluster() dataplane.State {
	s := n.state
	s.Node = n.name
	for _, x := range n.addressed {
		if s.Nodes = append(s.Nodes, x.addresses...); x.name == n.name {
			s.Self = x.addresses
		}
	}
	s.Networks, _ = n.node.State()
	return s
}

// moveNode gives a node another address in its Node; none if that is zero.
func (l *lab) moveNode(name string, address netip.Addr) {
	l.addressed = slices.DeleteFunc(l.addressed, func(x addressed) bool { return x.name == name })
	if address.IsValid() {
		l.addressed = append(l.addressed, addressed{name, []netip.Addr{address}})
	}
}
