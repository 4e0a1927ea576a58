package tables

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Networks on this node, in the order of their VNIs.
func (d *Desired) Networks() []dataplane.Network {
	var list []dataplane.Network
	for _, vni := range slices.Sorted(maps.Keys(d.is.Networks)) {
		list = append(list, d.served(vni).spec)
	}
	return list
}

// Network returns the properties in the AddressSlices of that Network; nil if they have none.
func (d *Desired) Network(namespace, networkName string) *dataplane.Network {
	if n := d.networks[name{namespace, networkName}]; n != nil && len(n.heads) > 0 {
		spec := n.spec
		return &spec
	}
	return nil
}

// Pod returns the pod of this node with that name; nil if it is unknown.
func (d *Desired) Pod(namespace, podName string) *dataplane.Pod {
	return d.pods[name{namespace, podName}]
}

// Port returns the port that the pod behind the interface may have; false if the interface is
// unknown or its pod has no such address. An older port of the same pod has none either.
func (d *Desired) Port(index PortKey) (dataplane.Port, bool) {
	is, open := d.is.Ports[index]
	p := d.ports[index]
	pod := d.here[p.Pod]
	if !open || pod == nil {
		return dataplane.Port{}, false
	}
	n := d.networks[name{p.Namespace, p.Network}]
	a, _ := n.of(pod)
	return dataplane.Port{Interface: index, VNI: is.VNI, Pod: pod.Namespace + "/" + pod.Name, IP: is.IP.Addr(), MAC: is.MAC, Route: n.spec.Route(a)}, true
}

// Transit returns the transit address of the port, zero if it has none, and whether an earlier port may have had it.
func (d *Desired) Transit(index PortKey) (address netip.Addr, reused bool) {
	address = d.is.Ports[index].Transit.Addr()
	return address, address.Is4() && address != last(d.transits.cidr.Masked().Addr(), index)
}

// Compare returns the changes from the observed to the desired contents, in a safe order.
func (d *Desired) Compare(is Tables) []Change { return Diff(is, d.is) }

// Size is the number of entries of each kind.
func (d *Desired) Size() map[string]int {
	return map[string]int{"port": len(d.is.Ports), "pod": len(d.is.Places), "network": len(d.is.Networks), "node": len(d.is.Nodes)}
}
