package addressslice

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// State is the input of one decision. It is one view, read from caches.
type State struct {
	Namespace string
	// Name of the Network. It is empty for the addresses of nodes.
	Name string
	// Network is nil if no Network with this name exists, and for nodes.
	Network *v1.Network
	// Slices have the label of this Network or of nodes, of any owner, in name order.
	Slices []*v1.AddressSlice
	// Locations maps each address to the HostIP of its node.
	Locations map[string]string
	// Unlocated: some pods run on nodes without a known address. Their addresses stay where
	// the AddressSlices have them.
	Unlocated map[string]bool
	// RemovalsHeld is how much longer slices may keep addresses that nobody has any more.
	// Packets for them are dropped at the node that had them.
	RemovalsHeld time.Duration
}

// Runs says whether a pod that holds an address is on a node, and may have running
// containers. The pod is nil if the cache has none with the entry's name.
func Runs(entry v1.AddressEntry, pod *corev1.Pod) bool {
	return entry.State == v1.AddressBound && pod != nil && pod.UID == entry.PodUID &&
		pod.Spec.NodeName != "" && !attachment.Gated(pod) && !attachment.Over(pod)
}

// NodeAddresses returns the addresses of a node, the preferred one first: internal before
// external, and IPv4 before IPv6. Dual-stack nodes list them in any order, and all nodes
// must send VXLAN over one family.
func NodeAddresses(node *corev1.Node) []netip.Addr {
	var addresses []netip.Addr
	for _, next := range []struct{ internal, is4 bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		for _, a := range node.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			ip = ip.Unmap()
			if err == nil && (a.Type == corev1.NodeInternalIP) == next.internal && ip.Is4() == next.is4 && !slices.Contains(addresses, ip) {
				addresses = append(addresses, ip)
			}
		}
	}
	return addresses
}

// HostIP is the address at which other nodes reach a node, "" if it has none.
func HostIP(node *corev1.Node) string {
	if addresses := NodeAddresses(node); len(addresses) > 0 {
		return addresses[0].String()
	}
	return ""
}

// overlay returns the properties of the Network, nil if it is not an Overlay, or its status
// lacks the VNI or the gateway: then agents cannot serve it.
func overlay(n *v1.Network) *v1.OverlayProperties {
	cidr, err := netip.ParsePrefix(n.Spec.CIDR)
	if err != nil || !isOverlay(n) || n.Status.VNI == 0 || n.Status.Gateway == "" && !cidr.IsSingleIP() {
		return nil
	}
	egress := n.Spec.Egress
	if egress == "" {
		egress = v1.EgressNAT
	}
	return &v1.OverlayProperties{VNI: n.Status.VNI, CIDR: n.Spec.CIDR, Gateway: n.Status.Gateway, Egress: egress, MTU: n.Spec.MTU}
}

func isOverlay(n *v1.Network) bool {
	return n.Spec.Attachment == nil || n.Spec.Attachment.Type != v1.AttachmentCNI
}

// made says whether the controller made the slice for this Network, or for nodes.
func (s State) made(slice *v1.AddressSlice) bool {
	if s.Name == "" {
		return strings.HasPrefix(slice.Name, NodesPrefix)
	}
	return metav1.IsControlledBy(slice, s.Network)
}
