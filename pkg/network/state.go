package network

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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
	// Cluster is what the cluster uses itself, in any order. Networks keep off it.
	Cluster []ClusterRange
	// AllowedOverlaps are CIDRs within which Networks of type Overlay need not.
	AllowedOverlaps []netip.Prefix
	// Agent: pod2-agent runs in the cluster. It gives running pods of an Overlay Network
	// the route to what its CIDR grew by.
	Agent bool
	// Attachment is what is known of how pods are attached; nil: nothing yet, and the
	// status stays as it is.
	Attachment *Attachment
	// NumbersHeld is how long the numbers of the status are to stay as they are, and
	// ReleasesHeld addresses of pods that are over, as long as nobody waits for one.
	NumbersHeld, ReleasesHeld time.Duration
}

// Attachment is what pkg/network/multus decides and the status tells.
type Attachment struct {
	VNI       int32
	Condition metav1.Condition
}

// Told says whether a status has it.
func (a Attachment) Told(status v1.NetworkStatus) bool {
	next := status.DeepCopy()
	a.Tell(next)
	return equality.Semantic.DeepEqual(*next, status)
}

// Tell puts it into a status.
func (a *Attachment) Tell(status *v1.NetworkStatus) {
	if a != nil {
		status.VNI = a.VNI
		meta.SetStatusCondition(&status.Conditions, a.Condition)
	}
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

// ReplicasOf are those of a StatefulSet, on the Networks that its template asks for.
func ReplicasOf(set *appsv1.StatefulSet) Replicas {
	start := int32(0)
	if set.Spec.Ordinals != nil {
		start = set.Spec.Ordinals.Start
	}
	return Replicas{
		Ordinals: ordinals.New(start, ptr.Deref(set.Spec.Replicas, 1), nil),
		Networks: attachment.RequestedNetworks(set.Spec.Template.Annotations),
	}
}

// Gateway is the gateway in force: the declared one, or the one chosen when the
// Network was new, so that growth does not move it; false when there is none. The
// status comes before the annotation, which users of the Network can write.
func Gateway(n *v1.Network) (netip.Addr, bool) {
	if n.Spec.Gateway != "" {
		cidr, _ := ipam.CheckCIDR(n.Spec.CIDR)
		gateway, err := netip.ParseAddr(n.Spec.Gateway)
		return gateway, err == nil && gatewayError(n, cidr) == nil
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

// Pool is what a Network has to give, without what is barred; the error is for its user
// and says which field is wrong.
func Pool(n *v1.Network, barred ...ipam.Range) (ipam.Pool, error) {
	return poolWith(n, recorded(n), barred...)
}

// poolWith is Pool once these CIDRs are on record.
func poolWith(n *v1.Network, cidrs []netip.Prefix, barred ...ipam.Range) (ipam.Pool, error) {
	cidr, err := ipam.CheckCIDR(n.Spec.CIDR)
	if err != nil {
		return ipam.Pool{}, fieldError("spec.cidr", err)
	}
	if shrunk(cidr, cidrs) {
		return ipam.Pool{}, fieldError("spec.cidr", fmt.Errorf("%s does not contain %s, of which addresses were handed out", cidr, cidrs[len(cidrs)-1]))
	}
	if err := gatewayError(n, cidr); err != nil {
		return ipam.Pool{}, fieldError("spec.gateway", err)
	}
	exclude, err := ranges(n.Spec.Exclude)
	if err != nil {
		return ipam.Pool{}, fieldError("spec.exclude", err)
	}
	onRequest, err := ranges(n.Spec.OnRequest)
	if err != nil {
		return ipam.Pool{}, fieldError("spec.onRequest", err)
	}
	gateway, _ := Gateway(n)
	return ipam.NewPool(cidr, gateway, append(exclude, barred...)).Formerly(cidrs).OnRequest(onRequest), nil
}

// leavesNone tells the user of a spec that is valid, and leaves no address to hand out; ""
// if it leaves some. Of the ranges of the cluster, overlapText tells.
func (v *view) leavesNone() string {
	switch {
	case v.poolErr != nil || v.overlap != nil || v.pool.Capacity() > 0:
		return ""
	case len(v.network.Spec.Exclude) == 0:
		return fmt.Sprintf("the gateway is the only address of %s", v.cidr)
	}
	return fmt.Sprintf("spec.exclude leaves no address of %s to hand out", v.cidr)
}

// outside are the ranges of the spec that have no address of the CIDR, as it stands.
func (v *view) outside() []string {
	var outside []string
	for _, text := range slices.Concat(v.network.Spec.Exclude, v.network.Spec.OnRequest) {
		if r, err := ipam.ParseRange(string(text)); err == nil && !r.Overlaps(v.cidr) {
			outside = append(outside, string(text))
		}
	}
	return outside
}

func ranges(texts []v1.AddressRange) ([]ipam.Range, error) {
	all := make([]ipam.Range, 0, len(texts))
	for _, text := range texts {
		r, err := ipam.ParseRange(string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Wants says whether the pod waits for its addresses: it is gated by us, alive, has a
// network of its own, and asks for Networks in a way that can be read. Whatever else carries
// the gate is complained about by Publish. The addresses that a restored pod brings are among
// its requests.
func Wants(pod *corev1.Pod) ([]attachment.Request, bool) {
	if !attachment.Gated(pod) || pod.Spec.HostNetwork || pod.DeletionTimestamp != nil || attachment.Over(pod) {
		return nil, false
	}
	brought := attachment.Published(pod)
	if _, answered := pod.Annotations[v1.AddressesAnnotation]; answered && brought == nil {
		return nil, false
	}
	requests, err := attachment.Requests(pod)
	return wishes(requests, brought), err == nil && len(requests) > 0
}

func terminating(n *v1.Network) bool { return n != nil && n.DeletionTimestamp != nil }
