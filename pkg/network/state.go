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

// State is the input of one decision about one Network. It is one view, read from caches:
// first the AddressBlocks, then the pods.
type State struct {
	Now       time.Time
	Namespace string
	Name      string
	// Network is nil if no Network with this name exists. Pods may ask for it even then, and
	// AddressBlocks of an earlier Network may remain.
	Network *v1.Network
	// Blocks of Networks with this name, of any UID, in name order.
	Blocks []*v1.AddressBlock
	// Known has the Pages of Blocks and of the Neighbours' AddressBlocks. It only saves
	// work: Diff reads an AddressBlock that is missing here, and decides the same.
	Known map[*v1.AddressBlock]*Known
	// Pods, in name order: those that ask for this Network, publish one of its addresses, or
	// are named by an entry of Blocks. A pod may be left out if it settles an entry and no
	// unsettled entry names it.
	Pods []*corev1.Pod
	// Owners that keep names stable and that entries or pods name. An owner that does not
	// exist is missing.
	Owners map[v1.AddressOwner]Replicas
	// Neighbours are the other Networks that waiting pods of this one ask for, in name
	// order. Network is nil if a neighbour does not exist.
	Neighbours []Neighbour
	// Cluster has the ranges that the cluster itself uses, in any order. Networks avoid
	// them.
	Cluster []ClusterRange
	// AllowedOverlaps are CIDRs in which Overlay Networks may overlap the cluster.
	AllowedOverlaps []netip.Prefix
	// Attachment says how pods are attached. If it is nil, this is not known yet, and the
	// status keeps its values.
	Attachment *Attachment
	// NumbersHeld is how long the numbers in the status must not change. ReleasesHeld is how
	// long addresses of terminated pods are kept while no pod waits for one.
	NumbersHeld, ReleasesHeld time.Duration
}

// Attachment is a decision of pkg/network/multus that the status reports.
type Attachment struct {
	VNI       int32
	Condition metav1.Condition
}

// Told says whether a status already reports the attachment.
func (a Attachment) Told(status v1.NetworkStatus) bool {
	next := status.DeepCopy()
	a.Tell(next)
	return equality.Semantic.DeepEqual(*next, status)
}

// Tell reports the attachment in a status.
func (a *Attachment) Tell(status *v1.NetworkStatus) {
	if a != nil {
		status.VNI = a.VNI
		meta.SetStatusCondition(&status.Conditions, a.Condition)
	}
}

// Neighbour is another Network that a pod asks for. Such a pod gets all of its addresses
// or none.
type Neighbour struct {
	Name    string
	Network *v1.Network
	Blocks  []*v1.AddressBlock
}

// Replicas are the pods of an owner that keeps names stable. They are called
// <owner>-<ordinal> and are on Networks.
type Replicas struct {
	Ordinals ordinals.Range
	Networks []string
}

// ReplicasOf returns the replicas of a StatefulSet and the Networks in its template.
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

// Gateway returns the gateway in force: the declared one, or the one chosen when the
// Network was new. So growth does not move it. It returns false if there is none. The
// status wins over the annotation, because users of the Network can write the annotation. They
// may have copied it from another Network, so only a host of this one counts.
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
	cidr, err := ipam.CheckCIDR(n.Spec.CIDR)
	if err != nil {
		return netip.Addr{}, false
	}
	if chosen, err := netip.ParseAddr(n.Annotations[v1.GatewayAnnotation]); err == nil && ipam.NoHost(cidr, chosen) == "" {
		return chosen, true
	}
	return ipam.DefaultGateway(cidr)
}

// gatewayText returns the gateway in force, or "" if there is none.
func gatewayText(n *v1.Network) string {
	if gateway, ok := Gateway(n); ok {
		return gateway.String()
	}
	return ""
}

// Pool returns the addresses that a Network can hand out, without the barred ones. The
// error is for the Network's user and names the wrong field.
func Pool(n *v1.Network, barred ...ipam.Range) (ipam.Pool, error) {
	return poolWith(n, recorded(n), barred...)
}

// poolWith is Pool as if the given CIDRs were recorded.
func poolWith(n *v1.Network, cidrs []netip.Prefix, barred ...ipam.Range) (ipam.Pool, error) {
	cidr, err := ipam.CheckCIDR(n.Spec.CIDR)
	if err != nil {
		return ipam.Pool{}, fieldError("spec.cidr", err)
	}
	if shrunk(cidr, cidrs) {
		return ipam.Pool{}, fieldError("spec.cidr", fmt.Errorf("%s does not contain %s, whose addresses were handed out", cidr, cidrs[len(cidrs)-1]))
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

// leavesNone returns a message for a valid spec that leaves no address to hand out, or ""
// if there are some. overlapText reports the ranges of the cluster.
func (v *view) leavesNone() string {
	switch {
	case v.poolErr != nil || v.overlap != nil || v.pool.Capacity() > 0:
		return ""
	case len(v.network.Spec.Exclude) == 0:
		return fmt.Sprintf("the gateway is the only address of %s", v.cidr)
	}
	return fmt.Sprintf("spec.exclude leaves no address of %s to hand out", v.cidr)
}

// outside returns the ranges of the spec that have no address in the current CIDR.
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

// Wants says whether the pod waits for addresses, and returns its requests. Such a pod
// has our gate, is alive, has its own network namespace, and asks for Networks in a
// readable way. Publish reports other gated pods. The requests include the addresses of a
// restored pod.
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
