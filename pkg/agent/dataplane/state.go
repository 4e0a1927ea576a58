package dataplane

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network/multus"
)

// State is the whole input of a decision. The order of its lists does not matter.
type State struct {
	// Node is the name of this node.
	Node string
	// UDPPort of VXLAN.
	UDPPort uint16
	// VXLANReversePathFilter drops a VXLAN packet if the route to its sender leads by another
	// interface than the one that the packet came from.
	VXLANReversePathFilter bool
	// Transit has the transit addresses of pods of IPv4 Networks.
	Transit netip.Prefix
	// Self are the addresses at which others reach this node, the preferred one of each family first.
	Self []netip.Addr
	// Nodes are the addresses of all nodes of the cluster. Those of this node may be missing.
	Nodes []netip.Addr
	// Networks are those on this node. Each has its own VNI.
	Networks []Network
	// APIServers are the endpoints of the Kubernetes API.
	APIServers []netip.AddrPort
	// Denied are addresses that nobody reaches from a Network, in addition to those of nodes
	// and API servers.
	Denied []netip.Prefix
}

// Network is an Overlay Network that has its VNI. An AddressSlice has its properties.
type Network struct {
	Namespace, Name string
	VNI             int32
	CIDR            netip.Prefix
	// Gateway is zero if the Network has none, such as a /32.
	Gateway netip.Addr
	MTU     int
	// Egress: packets leave through the gateway.
	Egress bool
}

// Route returns the destination that a pod needs a route to after its Network has grown; zero if it needs none. The
// pod's interface keeps the prefix that the Network had when the pod's address was published:
//
//	blue grew from 192.168.0.0/29 to 192.168.0.0/28; a has 192.168.0.2/29, b has 192.168.0.9/28
//	b to a    leaves by net1: 192.168.0.2 is on its link
//	a to b    leaves by eth0, the pod's default route, until net1 has a route to 192.168.0.0/28
//
// The agent only adds a route. To give the address a shorter prefix length it would have to
// remove the address, and the pod would lose its connections.
func (n Network) Route(a Attachment) netip.Prefix {
	if a.Bits > n.CIDR.Bits() && n.CIDR.Contains(a.IP) {
		return n.CIDR
	}
	return netip.Prefix{}
}

// Slice is an AddressSlice of a Network, or of the nodes.
type Slice struct {
	// Network is empty for nodes.
	Namespace, Network, Name string
	// Owner is the UID of the Network.
	Owner types.UID
	// Overlay is nil if the AddressSlice has no properties of its Network, or if they are incomplete.
	Overlay *Network
	// Locations are in the order of Compare. Each address is there once.
	Locations []Location
}

// Location is an address of a pod or node, and the address at which other nodes reach the node.
type Location struct{ Address, Host netip.Addr }

// Compare orders Locations by their MAC addresses, and then by their addresses.
func (l Location) Compare(other Location) int {
	a, b := MACOf(l.Address), MACOf(other.Address)
	return cmp.Or(bytes.Compare(a[:], b[:]), l.Address.Compare(other.Address))
}

// SliceOf reads an AddressSlice. It ignores addresses that the controller would not write.
func SliceOf(slice *v1.AddressSlice, underlayMTU int32) Slice {
	s := Slice{Namespace: slice.Namespace, Name: slice.Name, Locations: make([]Location, 0, len(slice.Spec.Locations))}
	if slice.Labels[v1.NodesLabel] != "true" {
		s.Network = slice.Labels[v1.NetworkLabel]
	}
	if owner := metav1.GetControllerOfNoCopy(slice); owner != nil {
		s.Owner = owner.UID
	}
	if o := slice.Spec.Overlay; o != nil && s.Network != "" {
		s.Overlay = overlayOf(s, o, underlayMTU)
	}
	for address, host := range slice.Spec.Locations {
		if l := (Location{addressOf(address), addressOf(host)}); l.Address.IsValid() && l.Host.IsValid() {
			s.Locations = append(s.Locations, l)
		}
	}
	slices.SortFunc(s.Locations, Location.Compare)
	return s
}

// addressOf reads an address in its usual form. It returns zero for any other text.
func addressOf(text string) netip.Addr {
	if ip, err := netip.ParseAddr(text); err == nil && !ip.Is4In6() && ip.Zone() == "" && ip.String() == text {
		return ip
	}
	return netip.Addr{}
}

// overlayOf returns nil if the properties are incomplete, or if the filter of the node does not have the VNI.
func overlayOf(s Slice, o *v1.OverlayProperties, underlayMTU int32) *Network {
	cidr, err := netip.ParsePrefix(o.CIDR)
	if err != nil || o.VNI < multus.FirstVNI || o.VNI > maxVNI {
		return nil
	}
	gateway := addressOf(o.Gateway)
	if gateway.IsValid() != cidr.Contains(gateway) || !gateway.IsValid() && (o.Gateway != "" || !cidr.IsSingleIP()) {
		return nil
	}
	mtu := multus.MTU(&v1.Network{Spec: v1.NetworkSpec{MTU: o.MTU}}, underlayMTU)
	return &Network{Namespace: s.Namespace, Name: s.Network, VNI: o.VNI, CIDR: cidr.Masked(), Gateway: gateway, MTU: int(mtu), Egress: o.Egress != v1.EgressNone}
}

// Pod is a pod that can receive packets.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Node            string
	Created         time.Time
	// Attachments are in the order of their Networks' names.
	Attachments []Attachment
}

// Attachment of a pod to a Network in its namespace.
type Attachment struct {
	Network string
	IP      netip.Addr
	MAC     MAC
	// Bits is the prefix length that was published with the address. It is the length that
	// the CIDR had then.
	Bits int
}

// PodOf reads a pod. It returns false if the pod does not count. A pod counts if it is on a
// node, has published addresses, is not gated, and has not succeeded or failed: its
// containers may run. A terminating pod counts. Only the controller writes the addresses.
func PodOf(pod *corev1.Pod) (Pod, bool) {
	if pod.Spec.NodeName == "" || attachment.Gated(pod) || attachment.Over(pod) {
		return Pod{}, false
	}
	p := Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Time}
	for network, told := range attachment.Published(pod) {
		if mac, err := ParseMAC(told.MAC); err == nil && mac.unicast() {
			p.Attachments = append(p.Attachments, Attachment{network, told.Address.Addr(), mac, told.Address.Bits()})
		}
	}
	slices.SortFunc(p.Attachments, func(a, b Attachment) int { return strings.Compare(a.Network, b.Network) })
	return p, len(p.Attachments) > 0
}

// Port is a pod's interface on this node.
type Port struct {
	// Interface is the index of the node's end.
	Interface uint32
	VNI       int32
	// Pod is "namespace/name".
	Pod string
	// IP and MAC are those of the pod's Attachment.
	IP  netip.Addr
	MAC MAC
	// Route is zero unless the Network has grown.
	Route netip.Prefix
	// Inner is the name of the pod's end.
	Inner string
}
