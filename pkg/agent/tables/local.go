package tables

import (
	"maps"
	"slices"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Here are the VNIs of the Networks on this node, in order.
func (d *Desired) Here() []int32 { return slices.Sorted(maps.Keys(d.is.Networks)) }

// Port returns the port that the pod behind the interface may have; false if the interface is
// unknown or its pod has no such address. An older port of the same pod has none either.
func (d *Desired) Port(index PortKey) (dataplane.Port, bool) {
	is, open := d.is.Ports[index]
	p := d.ports[index]
	pod := d.here[p.Pod]
	if !open || is.Router || pod == nil {
		return dataplane.Port{}, false
	}
	a, _ := d.networks[name{p.Namespace, p.Network}].of(pod)
	return dataplane.Port{Interface: index, VNI: is.VNI, Pod: pod.Namespace + "/" + pod.Name, IP: is.IP, MAC: is.MAC, Bits: a.Bits}, true
}

// Compare returns the changes from the observed to the desired contents, in a safe order.
func (d *Desired) Compare(is Tables) []Change { return Diff(is, d.is) }

// Size is the number of entries of each kind.
func (d *Desired) Size() map[string]int {
	return map[string]int{"port": len(d.is.Ports), "pod": len(d.is.Places), "network": len(d.is.Networks), "node": len(d.is.Nodes)}
}
