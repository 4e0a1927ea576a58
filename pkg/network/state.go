package network

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/ordinals"
)

// State is all that one decision about one Network is made from: one view, read
// from caches, the ledger before the pods.
type State struct {
	Now       time.Time
	Namespace string
	Name      string
	// Network is nil when none of this name exists; pods may ask for it all the
	// same, and blocks of an earlier one may be left.
	Network *v1.Network
	// Blocks of this name, of whatever Network UID, in the order of their names.
	Blocks []*v1.AddressBlock
	// Known of Blocks, and of those of Neighbours, is what their Pages are. It saves
	// work and changes no decision: what is not in it is read anew.
	Known map[*v1.AddressBlock]*Known
	// Pods, in name order: those that ask for this Network, publish an address
	// of it, or are named by an entry of Blocks. Those that settle an entry, and are
	// named by no other that is not settled, may be left out.
	Pods []*corev1.Pod
	// Owners that keep stable names, of those that entries and pods name. One
	// that does not exist is not in it.
	Owners map[v1.AddressOwner]Replicas
	// Neighbours are the other Networks that waiting pods of this one ask for, in
	// name order; one that does not exist has a nil Network.
	Neighbours []Neighbour
}

// Neighbour is another Network that a pod asks for too: such a pod gets all of
// its addresses or none.
type Neighbour struct {
	Name    string
	Network *v1.Network
	Blocks  []*v1.AddressBlock
}

// Replicas are the pods that an owner with stable names has: <owner>-<ordinal>,
// on Networks.
type Replicas struct {
	Ordinals ordinals.Range
	Networks []string
}

// Gateway is the gateway in force: the declared one, or the one chosen when the
// Network was new, so that growth does not move it; false when there is none. The
// status comes before the annotation, which users of the Network can write.
func Gateway(n *v1.Network) (netip.Addr, bool) {
	if n.Spec.Gateway != "" {
		gateway, err := netip.ParseAddr(n.Spec.Gateway)
		return gateway, err == nil
	}
	if n.Status.ObservedGeneration > 0 {
		gateway, err := netip.ParseAddr(n.Status.Gateway)
		return gateway, err == nil
	}
	if chosen, ok := n.Annotations[v1.GatewayAnnotation]; ok {
		gateway, err := netip.ParseAddr(chosen)
		return gateway, err == nil
	}
	cidr, err := ipam.CheckCIDR(n.Spec.CIDR)
	if err != nil {
		return netip.Addr{}, false
	}
	return ipam.DefaultGateway(cidr)
}

// GatewayText is the gateway in force, "" for none.
func GatewayText(n *v1.Network) string {
	if gateway, ok := Gateway(n); ok {
		return gateway.String()
	}
	return ""
}

// Pool is what a Network has to give; the error is for its user and says which
// field is wrong.
func Pool(n *v1.Network) (ipam.Pool, error) {
	cidr, err := ipam.CheckCIDR(n.Spec.CIDR)
	if err != nil {
		return ipam.Pool{}, fieldError("spec.cidr", err)
	}
	exclude := make([]ipam.Range, 0, len(n.Spec.Exclude))
	for _, text := range n.Spec.Exclude {
		r, err := ipam.ParseRange(string(text))
		if err != nil {
			return ipam.Pool{}, fieldError("spec.exclude", err)
		}
		exclude = append(exclude, r)
	}
	gateway, _ := Gateway(n)
	return ipam.NewPool(cidr, gateway, exclude), nil
}

// Wants says whether the pod waits for its addresses: it is gated by us, alive,
// and asks for Networks in a way that can be read. Whatever else carries the gate
// is complained about by Publish.
func Wants(pod *corev1.Pod) ([]attachment.Request, bool) {
	if !attachment.Gated(pod) || pod.DeletionTimestamp != nil || attachment.Over(pod) {
		return nil, false
	}
	if _, published := pod.Annotations[v1.AddressesAnnotation]; published {
		return nil, false
	}
	requests, err := attachment.Requests(pod)
	return requests, err == nil && len(requests) > 0
}

func terminating(n *v1.Network) bool { return n != nil && n.DeletionTimestamp != nil }
