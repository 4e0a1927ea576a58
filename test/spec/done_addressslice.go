package spec

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// AddressSlicesDone describes the remaining work for the AddressSlices of an Overlay Network that
// has its VNI and its gateway.
//
//   - They have each address that a scheduled live pod holds, once, with the internal address of
//     the pod's node, and no other address. An address whose node is unknown may be in them.
//   - Exactly one has the properties of the Network.
//   - None has more than 50 addresses. None is empty, except the one with the properties.
func AddressSlicesDone(c *Cluster, n *v1.Network) string {
	want, unknown := map[string]string{}, map[string]bool{}
	for _, b := range c.blocksOf(n.Name) {
		for _, e := range b.Spec.Entries {
			pod := named(c.Pods, e.Pod)
			if b.Spec.NetworkUID != n.UID || e.State != v1.AddressBound || pod == nil || pod.UID != e.PodUID || pod.Spec.NodeName == "" || !Live(pod) {
				continue
			}
			if node := named(c.Nodes, pod.Spec.NodeName); node != nil && internal(node) != "" {
				want[e.Address] = internal(node)
			} else {
				unknown[e.Address] = true
			}
		}
	}
	got, heads := map[string]string{}, 0
	for _, s := range c.AddressSlices {
		if !metav1.IsControlledBy(s, n) {
			if s.Labels[v1.NetworkLabel] == n.Name {
				return fmt.Sprintf("AddressSlice %s has the label of the Network, and belongs to another", s.Name)
			}
			continue
		}
		if s.Spec.Overlay != nil {
			heads++
		} else if len(s.Spec.Locations) == 0 {
			return fmt.Sprintf("AddressSlice %s is empty", s.Name)
		}
		for address, host := range s.Spec.Locations {
			if _, twice := got[address]; twice {
				return fmt.Sprintf("two AddressSlices have %s", address)
			}
			got[address] = host
		}
		if s.Labels[v1.NetworkLabel] != n.Name || len(s.Spec.Locations) > 50 {
			return fmt.Sprintf("AddressSlice %s: labels %v, %d addresses", s.Name, s.Labels, len(s.Spec.Locations))
		}
		if o := s.Spec.Overlay; o != nil && (o.VNI != n.Status.VNI || o.CIDR != n.Spec.CIDR || o.Gateway != n.Status.Gateway) {
			return fmt.Sprintf("AddressSlice %s has other properties than the Network", s.Name)
		}
	}
	maps.DeleteFunc(got, func(address, _ string) bool { return unknown[address] })
	if heads != 1 || !maps.Equal(got, want) {
		return fmt.Sprintf("%d AddressSlices have the properties of the Network, and the addresses are %v instead of %v", heads, got, want)
	}
	return ""
}

// internal is the first internal IPv4 address of a node.
func internal(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}
