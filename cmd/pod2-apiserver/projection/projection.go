// Package projection computes the Addresses of an AddressBlock. It is pure: the result
// depends on its arguments only, so all replicas of the server compute the same.
package projection

import (
	"cmp"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/network"
)

// Name is the name of an Address:
//
//	blue, 192.168.0.7       blue-192.168.0.7
//	blue, 2001:db8::107     blue-2001-0db8-0000-0000-0000-0000-0000-0107
//
// It spells the address as the name of an AddressBlock does.
func Name(network string, address netip.Addr) string {
	return ipam.BlockName(network, netip.PrefixFrom(address, address.BitLen()))
}

// Addresses returns the Addresses of an AddressBlock, in the order of their names. of is the
// Network that the AddressBlock names, or nil. node returns the node of a pod, or "". An
// AddressBlock that the controller did not write has no Addresses.
func Addresses(block *v1.AddressBlock, of *v1.Network, node func(pod string, uid types.UID) string) []*view.Address {
	page, ok := network.Read(block)
	if !ok {
		return nil
	}
	addresses := make([]*view.Address, 0, page.Size())
	for address, e := range page.Entries() {
		a := &view.Address{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: block.Namespace, Name: Name(block.Spec.Network, address),
				UID:    types.UID(string(block.UID) + "-" + address.String()),
				Labels: map[string]string{v1.NetworkLabel: block.Spec.Network},
			},
			Spec: view.AddressSpec{
				Network: block.Spec.Network, Address: address.String(), MAC: ipam.MAC(address),
				Pod: e.Pod, PodUID: e.PodUID, Owner: view.AddressOwner(e.Owner),
			},
			Status: view.AddressStatus{State: e.State, Since: e.Since},
		}
		if e.Owner.Kind == "Pod2" {
			a.Labels[v1.Pod2Label] = e.Owner.Name
		}
		switch {
		case e.State == v1.AddressBound:
			a.Status.Node = node(e.Pod, e.PodUID)
		case e.State == v1.AddressResting && of != nil && of.UID == block.Spec.NetworkUID && of.DeletionTimestamp == nil:
			a.Status.Until = &metav1.Time{Time: e.Since.Add(network.ReuseDelay(of))}
		}
		addresses = append(addresses, a)
	}
	slices.SortFunc(addresses, Order)
	return addresses
}

// Order compares Addresses by namespace and name.
func Order(a, b *view.Address) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
