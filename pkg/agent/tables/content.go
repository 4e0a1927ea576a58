package tables

import (
	"fmt"
	"slices"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// mark the place of the pod, and its ports.
func (d *Desired) mark(n *network, p *dataplane.Pod) {
	if !n.open {
		return
	}
	a, _ := n.of(p)
	d.dirty = append(d.dirty, key{in: PlaceMap, place: PlaceKey{n.spec.VNI, a.MAC}})
	if p.Node == d.self {
		d.markPorts(n.port(p))
	}
}

// markVNI marks the entries of a VNI apart from pods.
func (d *Desired) markVNI(vni int32) {
	d.dirty = append(d.dirty, key{in: NetworkMap, vni: vni})
	d.markPorts(LocalPort{VNI: vni})
}

func (d *Desired) markPorts(p LocalPort) {
	for _, index := range d.plugged[p.user()] {
		d.dirty = append(d.dirty, key{in: PortMap, port: index})
	}
}

// flush brings the entries with the marked keys up to date.
func (d *Desired) flush() []Change {
	b := batch{changes: make([]Change, 0, len(d.dirty))}
	for _, k := range d.dirty {
		if c := d.content(k); b.compare(d.is, c) {
			d.is.Apply(c)
		}
	}
	d.dirty = nil
	return b.ordered()
}

// content returns the change that makes the entry with the key, or removes it.
func (d *Desired) content(k key) Change {
	c, exists := k.change(false), false
	switch k.in {
	case NodeMap:
		exists = d.vteps[c.Node] > 0
	case NetworkMap:
		if n := d.served(c.VNI); n != nil {
			exists, c.NetworkValue = true, Network{MTU: n.spec.MTU, Gateway: n.spec.Gateway}
			if n.spec.Gateway.IsValid() {
				c.NetworkValue.Router = d.newest(LocalPort{VNI: c.VNI})
			}
		}
	case PortMap:
		if p, known := d.ports[c.Port]; known && d.newest(p) == c.Port {
			c.PortValue, exists = d.port(p)
		}
	case PlaceMap:
		n := d.served(c.Place.VNI)
		if n == nil || n.byMAC[c.Place.MAC] == nil {
			break
		}
		p := n.byMAC[c.Place.MAC]
		a, holds := n.holds(p)
		c.PlaceValue = Place{IP: a.IP}
		if p.Node == d.self {
			c.PlaceValue.Interface = d.newest(n.port(p))
		} else {
			c.PlaceValue.Node = d.nodes[p.Node].vtep
		}
		exists = holds && (c.PlaceValue.Interface != 0 || c.PlaceValue.Node.IsValid())
	}
	if !exists {
		return k.change(true)
	}
	return c
}

func (d *Desired) port(p LocalPort) (Port, bool) {
	if p.VNI != 0 {
		n := d.served(p.VNI)
		if n == nil || !n.spec.Gateway.IsValid() {
			return Port{}, false
		}
		return Port{VNI: p.VNI, MAC: dataplane.GatewayMAC(p.VNI), IP: n.spec.Gateway, Router: true}, true
	}
	pod, n := d.here[p.Pod], d.networks[name{p.Namespace, p.Network}]
	if pod == nil || n == nil {
		return Port{}, false
	}
	a, holds := n.holds(pod)
	return Port{VNI: n.spec.VNI, MAC: a.MAC, IP: a.IP}, holds
}

// served is the Network with that VNI, nil if none is on this node.
func (d *Desired) served(vni int32) *network {
	if list := d.vnis[vni]; len(list) > 0 && list[0].open {
		return list[0]
	}
	return nil
}

// port is the user of the pod's port.
func (n *network) port(p *dataplane.Pod) LocalPort {
	return LocalPort{Pod: p.UID, Namespace: n.name.namespace, Network: n.name.name}
}

// newest returns the port that counts of a user, 0 if it has none.
func (d *Desired) newest(p LocalPort) PortKey {
	if list := d.plugged[p.user()]; len(list) > 0 {
		return slices.Max(list)
	}
	return 0
}

const (
	problemClaims = "Network %s: pods %s and %s both have %s; the newer pod, %s, receives its packets"
	problemVNI    = "Networks %s and %s both have VNI %d; only the first is served"
	problemSelf   = "node %s: the Node has no address that other nodes can send to; VXLAN stays as it was"
	problemNode   = "node %s: the Node has no address that this node, %s, can send VXLAN to; its pods are unreachable"
)

// Problems need somebody's attention. Each is a sentence. Problems visits all Networks and
// nodes, so call it from time to time, not for each event.
func (d *Desired) Problems() []string {
	var problems []string
	if n := d.nodes[d.self]; n == nil || len(n.addresses) == 0 {
		problems = append(problems, fmt.Sprintf(problemSelf, d.self))
	}
	for vni, list := range d.vnis {
		for _, n := range list[1:] {
			problems = append(problems, fmt.Sprintf(problemVNI, list[0], n, vni))
		}
	}
	for _, n := range d.networks {
		for _, problem := range n.lost {
			problems = append(problems, problem)
		}
	}
	for nodeName, x := range d.nodes {
		if nodeName != d.self && len(x.addresses) > 0 && !x.vtep.IsValid() && d.local.IsValid() && d.concerns(x) {
			problems = append(problems, fmt.Sprintf(problemNode, nodeName, d.local))
		}
	}
	slices.Sort(problems)
	return problems
}

// concerns says whether a pod of the node is on a Network of this node.
func (d *Desired) concerns(x *node) bool {
	for p := range x.pods {
		for _, a := range p.Attachments {
			if _, holds := d.networks[name{p.Namespace, a.Network}].holds(p); holds {
				return true
			}
		}
	}
	return false
}
