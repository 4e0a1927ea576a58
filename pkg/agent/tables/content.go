package tables

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// mark the place of the pod, its ports, and another place that its address may have.
func (d *Desired) mark(n *network, p *dataplane.Pod) {
	if !n.open {
		return
	}
	a, _ := n.of(p)
	d.markPlace(n, a.MAC)
	d.markPlace(n, dataplane.MACOf(a.IP))
	d.markPorts(n.port(p))
}

func (d *Desired) markPlace(n *network, mac dataplane.MAC) {
	if n.open {
		d.dirty = append(d.dirty, Key{Map: PlaceMap, Place: PlaceKey{VNI: n.spec.VNI, MAC: mac}})
	}
}

// markAll entries of a Network.
func (d *Desired) markAll(n *network) {
	if !n.open {
		return
	}
	d.dirty = slices.Grow(d.dirty, len(n.claims.one)+2)
	d.dirty = append(d.dirty, vniKey(n.spec.VNI))
	for mac := range n.claims.one {
		d.markPlace(n, mac)
	}
	for mac := range n.claims.more {
		d.markPlace(n, mac)
	}
	for p := range n.pods {
		d.mark(n, p)
	}
}

func (d *Desired) markPorts(p LocalPort) {
	for _, index := range d.plugged[p.user()] {
		d.dirty = append(d.dirty, Key{Map: PortMap, Port: index}, transitKey(d.transit(index, true)))
		if ipv4 := d.transit(index, false); ipv4.IsValid() {
			d.dirty = append(d.dirty, transitKey(ipv4))
		}
	}
}

// flush brings the entries with the marked keys up to date.
func (d *Desired) flush() []Change {
	b := batch{changes: make([]Change, 0, len(d.dirty))}
	for _, k := range d.dirty {
		if c := (Change{k, d.content(k)}); b.add(d.is.value(k), c) {
			d.is.Apply(c)
		}
	}
	d.dirty = nil
	return b.ordered()
}

// content returns the value that the entry with the key should have; nil if it should not exist.
func (d *Desired) content(k Key) any {
	switch k.Map {
	case NodeMap:
		if d.hosts[k.Address] > 0 && d.reaches(k.Address) {
			return struct{}{}
		}
	case NetworkMap:
		if n := d.served(k.VNI); n != nil {
			return NetworkOf(&n.spec)
		}
	case PortMap:
		if port, open := d.port(k.Port); open {
			return port
		}
	case TransitMap:
		user := d.transitUser(k.Address)
		if port, open := d.port(user); open && port.Transit == AddressOf(k.Address) {
			return user
		}
	case PlaceMap:
		n := d.served(k.Place.VNI)
		if n == nil {
			return nil
		}
		if p := n.byMAC[k.Place.MAC]; p != nil {
			a, _ := n.of(p)
			if newest := d.newest(n.port(p)); newest != 0 {
				return Place{IP: AddressOf(a.IP), Interface: newest}
			}
		} else if list := d.remote(n, k.Place.MAC); len(list) > 0 {
			return Place{IP: AddressOf(list[0].Address), Node: AddressOf(list[0].Host)}
		}
	}
	return nil
}

// port returns the entry of the interface, and whether it has one.
func (d *Desired) port(index PortKey) (Port, bool) {
	p, known := d.ports[index]
	pod, n := d.here[p.Pod], d.networks[name{p.Namespace, p.Network}]
	if !known || d.newest(p) != index || pod == nil || n == nil {
		return Port{}, false
	}
	a, _ := n.of(pod)
	port := Port{VNI: n.spec.VNI, MAC: a.MAC, IP: AddressOf(a.IP), Transit: AddressOf(d.transit(index, a.IP.Is6()))}
	return port, n.open && n.byMAC[a.MAC] == pod
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
	problemMAC    = "Network %s: addresses %s and %s both have MAC address %s; only the first receives packets: recreate the pod that has the other"
	problemVNI    = "Networks %s and %s both have VNI %d; only the first is served"
	problemFamily = "Network %s: the node with the address %s has no address that this node, %s, can send VXLAN to; its pods are unreachable"
	problemPort   = "interface %d of a pod of Network %s/%s: all addresses of --transit-cidr are taken; its packets cannot leave the Network"
)

// Problems need somebody's attention. Each is a sentence. Problems visits all addresses, so call
// it from time to time, not for each event.
func (d *Desired) Problems() []string {
	var problems []string
	for vni, list := range d.vnis {
		for _, n := range list[1:] {
			problems = append(problems, fmt.Sprintf(problemVNI, list[0], n, vni))
		}
	}
	for _, n := range d.networks {
		if n.open {
			problems = slices.AppendSeq(problems, maps.Values(n.lost))
			problems = slices.AppendSeq(problems, maps.Values(d.shared(n)))
			problems = slices.AppendSeq(problems, maps.Values(d.unreachable(n)))
		}
	}
	for index, p := range d.ports {
		if is, open := d.port(index); open && is.Transit == (Address{}) && d.transits.cidr.IsValid() {
			problems = append(problems, fmt.Sprintf(problemPort, index, p.Namespace, p.Network))
		}
	}
	slices.Sort(problems)
	return problems
}

// shared returns a problem for each MAC address that several addresses have.
func (d *Desired) shared(n *network) map[dataplane.MAC]string {
	problems := map[dataplane.MAC]string{}
	check := func(mac dataplane.MAC) {
		var addresses []netip.Addr
		if p := n.byMAC[mac]; p != nil {
			a, _ := n.of(p)
			addresses = append(addresses, a.IP)
		}
		for _, l := range d.remote(n, mac) {
			addresses = append(addresses, l.Address)
		}
		if len(addresses) > 1 {
			problems[mac] = fmt.Sprintf(problemMAC, n, addresses[0], addresses[1], mac)
		}
	}
	for mac := range n.byMAC {
		check(mac)
	}
	for mac := range n.claims.more {
		check(mac)
	}
	return problems
}

// unreachable returns a problem for each host of the other family.
func (d *Desired) unreachable(n *network) map[netip.Addr]string {
	problems := map[netip.Addr]string{}
	for _, s := range n.slices {
		for _, l := range s.Locations {
			if d.local.IsValid() && l.Host.Is4() != d.local.Is4() && problems[l.Host] == "" && d.counts(n, s, l) {
				problems[l.Host] = fmt.Sprintf(problemFamily, n, l.Host, d.local)
			}
		}
	}
	return problems
}
