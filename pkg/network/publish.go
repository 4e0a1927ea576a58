package network

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/plan"
)

// Further reasons of the condition samplecrd.k8s.io/AddressesBound.
const (
	ReasonPublished      = "Published"
	ReasonMissingGate    = "MissingGate"
	ReasonMissingRequest = "MissingRequest"
	ReasonInvalidRequest = "InvalidRequest"
	ReasonFailedPublish  = "FailedPublish"
	ReasonHostNetwork    = "HostNetwork"
	ReasonRequestChanged = "RequestChanged"
)

// PodState is the input of a decision about the annotations of one pod.
type PodState struct {
	Now time.Time
	Pod *corev1.Pod
	// Networks that the pod asks for, in name order, each with the AddressBlocks that
	// name the pod. Network is nil if a Network does not exist.
	Networks []Neighbour
}

// PodPlan has the writes to one pod.
type PodPlan struct {
	// Publish writes the addresses into the annotations, lifts our scheduling gate, and may
	// clear managedFields, in one write. Preconditions: UID and resourceVersion.
	Publish *Publication
	// Condition for the user. Precondition: UID.
	Condition *corev1.PodCondition
	// Event on the pod, after the condition.
	Event *plan.Event
	// Stale, if not empty, says why this view of a Network is older than the view of its
	// AddressBlocks. Nothing must be written from it. No event announces the newer view,
	// so the sync fails and is retried.
	Stale string
}

// Publication says how the write changes the pod.
type Publication struct {
	Addresses string // of v1.AddressesAnnotation
	Multus    attachment.Multus
	// ClearManagedFields empties metadata.managedFields in the same write. The API server then
	// records no field managers for later writes to this pod, so they and its events cost less.
	ClearManagedFields bool
	// Confirm are Networks of which a live read must find the UID of the view BEFORE the
	// write: another Network with the same name bound the pod too. If that one is newer,
	// the view is old.
	Confirm []*v1.Network
}

// Empty says whether there is nothing to write.
func (p PodPlan) Empty() bool { return p.Publish == nil && p.Condition == nil }

// String has one action a line.
func (p PodPlan) String() string {
	text := ""
	if p.Stale != "" {
		text += "stale: " + p.Stale + "\n"
	}
	if p.Publish != nil {
		text += "publish " + p.Publish.Addresses
		if p.Publish.ClearManagedFields {
			text += " and clear managedFields"
		}
		for _, n := range p.Publish.Confirm {
			text += fmt.Sprintf("; if Network %s is %s", n.Name, n.UID)
		}
		text += "\n"
	}
	if p.Condition != nil {
		text += fmt.Sprintf("condition %s=%s %s: %s\n", p.Condition.Type, p.Condition.Status, p.Condition.Reason, p.Condition.Message)
	}
	return text
}

// Publish decides about one pod. First match wins:
//
//	terminated or terminating              nothing
//	request, and the network of the node   complain unless published: no interface of the pod
//	                                       would have an address of a Network
//	gated, request missing or unreadable   complain
//	gated, restored addresses unreadable   complain
//	gated, bound only by an unknown        the view may be old
//	Network
//	gated, all Networks bound              publish
//	gated                                  nothing; the Networks report the reason
//	request, neither gated nor published   complain: it may already run
//	published, request changed since       report that the change has no effect
//	published, after it had to wait        report that it waits no more
func Publish(s PodState) PodPlan {
	pod := s.Pod
	if attachment.Over(pod) || pod.DeletionTimestamp != nil {
		return PodPlan{}
	}
	_, answered := pod.Annotations[v1.AddressesAnnotation]
	request, asks := pod.Annotations[v1.NetworksAnnotation]
	gated := attachment.Gated(pod)
	if pod.Spec.HostNetwork && asks && request != "" && (gated || !answered) {
		return s.complain(ReasonHostNetwork, fmt.Sprintf(
			"the pod uses the network of its node (spec.hostNetwork: true), so it cannot join Networks %q; "+
				"recreate it without hostNetwork or without the annotation %s", request, v1.NetworksAnnotation))
	}
	if !gated {
		switch {
		case asks && !answered:
			return s.complain(ReasonMissingGate, fmt.Sprintf(
				"the pod asks for Networks %q without the scheduling gate %s, so it may already be running. Recreate it with the gate "+
					"and without spec.nodeName. A pod with spec.nodeName cannot have a gate, so use a nodeSelector or an affinity",
				request, v1.AddressesGate))
		case answered:
			return s.bound(request)
		}
		return PodPlan{}
	}
	requests, err := attachment.Requests(pod)
	switch {
	case err != nil:
		return s.complain(ReasonInvalidRequest, fmt.Sprintf("%s; edit the annotation: the pod is still gated", err))
	case len(requests) == 0:
		return s.complain(ReasonMissingRequest, fmt.Sprintf(
			"the pod has the scheduling gate %s but no annotation %s; name the Networks there, or remove the gate",
			v1.AddressesGate, v1.NetworksAnnotation))
	case answered && attachment.Published(pod) == nil:
		return s.complain(ReasonInvalidRequest, fmt.Sprintf(
			"the pod was created with an unreadable annotation %s; remove it to get any address", v1.AddressesAnnotation))
	}
	return s.publish(requests)
}

// Served says whether Publish decides nothing about a pod, in any state of its Networks. After most
// events this is so: the pod publishes the addresses that it asks for, asks for none, or ends.
func Served(pod *corev1.Pod) bool {
	return !attachment.Gated(pod) && !SaysItWaits(pod) && Publish(PodState{Pod: pod}).Empty()
}

func (s PodState) publish(requests []attachment.Request) PodPlan {
	addresses := make(map[string]attachment.Address, len(s.Networks))
	var confirm []*v1.Network
	for _, n := range s.Networks {
		addr, held := heldAddress(n, s.Pod)
		other := boundByAnother(n, s.Pod)
		switch {
		case !held && other != "":
			return PodPlan{Stale: fmt.Sprintf("AddressBlock %s belongs to a Network %s that the cache does not have", other, n.Name)}
		case !held:
			return PodPlan{}
		case other != "":
			confirm = append(confirm, n.Network)
		}
		cidr, onRecord := publishedWith(n.Network, addr)
		if !onRecord {
			return PodPlan{Stale: fmt.Sprintf("%s is bound to the pod, but no recorded CIDR of Network %s contains it", addr, n.Name)}
		}
		gateway, _ := Gateway(n.Network)
		addresses[n.Name] = attachment.Address{
			Address: netip.PrefixFrom(addr, cidr.Bits()), Gateway: gateway, MAC: ipam.MAC(addr),
		}
	}
	multus, err := attachment.AppendMultus(attachment.Unpublished(s.Pod), s.Pod.Namespace, attachment.Elements(requests, addresses))
	if err != nil {
		return s.complain(ReasonInvalidRequest, fmt.Sprintf("%s; edit the annotation: the pod is still gated. To join other Networks, recreate the pod: its addresses are bound", err))
	}
	return PodPlan{Publish: &Publication{attachment.FormatAddresses(addresses), multus, clearsManagedFields(s.Pod), confirm}}
}

// clearsManagedFields says whether nobody needs metadata.managedFields of the pod. Server-side
// apply finds there the fields of the last apply, and removes those that the next one leaves
// out. So a pod that was applied keeps them. A pod without a controller keeps them too, because
// kubectl can turn its entries of client-side apply into entries of server-side apply.
func clearsManagedFields(pod *corev1.Pod) bool {
	return metav1.GetControllerOfNoCopy(pod) != nil && !slices.ContainsFunc(pod.ManagedFields, Applied)
}

// Applied says whether server-side apply made this entry of metadata.managedFields.
func Applied(e metav1.ManagedFieldsEntry) bool {
	return e.Operation == metav1.ManagedFieldsOperationApply
}

// boundByAnother returns the name of an AddressBlock that binds the pod for a Network with
// this name and another UID than in the view, or "". That Network may be newer than the
// view. Or it is a former one, whose entries end with their pods: a user removed it by
// force, or restored its AddressBlocks, while the pod still waits.
func boundByAnother(n Neighbour, pod *corev1.Pod) string {
	for _, block := range n.Blocks {
		if (n.Network == nil || n.Network.UID != block.Spec.NetworkUID) &&
			slices.ContainsFunc(block.Spec.Entries, func(e v1.AddressEntry) bool { return e.PodUID == pod.UID }) {
			return block.Name
		}
	}
	return ""
}

// heldAddress returns the lowest address that the current Network has bound to this pod, by
// UID.
func heldAddress(n Neighbour, pod *corev1.Pod) (netip.Addr, bool) {
	var lowest netip.Addr
	for _, block := range n.Blocks {
		p, ok := read(block)
		if !ok || n.Network == nil || block.Spec.NetworkUID != n.Network.UID {
			continue
		}
		for _, e := range p.observed {
			if e.State == v1.AddressBound && e.PodUID == pod.UID && (!lowest.IsValid() || e.addr.Less(lowest)) {
				lowest = e.addr
			}
		}
	}
	return lowest, lowest.IsValid()
}

// PublishFailed tells the user of a pod, in the words of the API server, why the addresses
// could not be written into the pod.
func PublishFailed(s PodState, message string) PodPlan {
	return s.complain(ReasonFailedPublish, shorten.To("its addresses are bound but could not be written into the pod: "+message, shorten.EventMessage))
}

func (s PodState) complain(reason, message string) PodPlan {
	condition, changed := addressesBound(s.Pod, corev1.ConditionFalse, reason, message, s.now())
	if !changed {
		return PodPlan{}
	}
	return PodPlan{Condition: &condition, Event: ptr.To(plan.Warning(reason, message))}
}

// bound corrects the condition of a pod that had to wait or whose request changed. Other
// pods have no such condition, which saves a write for each pod.
func (s PodState) bound(request string) PodPlan {
	c := boundCondition(s.Pod)
	if c != nil && c.Status != corev1.ConditionTrue && c.Reason == ReasonAddressConflict && !s.recorded() {
		return PodPlan{}
	}
	if s.changed() {
		message := fmt.Sprintf("the pod keeps its addresses; its annotation %s changed to %.200q, which has no effect until you recreate the pod", v1.NetworksAnnotation, request)
		condition, changed := addressesBound(s.Pod, corev1.ConditionTrue, ReasonRequestChanged, message, s.now())
		if !changed {
			return PodPlan{}
		}
		return PodPlan{Condition: &condition, Event: ptr.To(plan.Warning(ReasonRequestChanged, message))}
	}
	if c == nil || c.Status == corev1.ConditionTrue && c.Reason != ReasonRequestChanged {
		return PodPlan{}
	}
	condition, _ := addressesBound(s.Pod, corev1.ConditionTrue, ReasonPublished, "", s.now())
	return PodPlan{Condition: &condition}
}

// changed says whether a published pod asks for other Networks or addresses than it has.
func (s PodState) changed() bool {
	published := attachment.Published(s.Pod)
	requests, err := attachment.Requests(s.Pod)
	if published == nil || err != nil {
		return published != nil
	}
	return len(requests) != len(published) || slices.ContainsFunc(requests, func(r attachment.Request) bool {
		has, ok := published[r.Network]
		return !ok || r.Address.IsValid() && r.Address != has.Address.Addr()
	})
}

// recorded says whether the AddressBlocks agree with all addresses that the pod publishes.
func (s PodState) recorded() bool {
	for name, published := range attachment.Published(s.Pod) {
		if !slices.ContainsFunc(s.Networks, func(n Neighbour) bool {
			if n.Name != name || n.Network == nil {
				return false
			}
			held, ok := heldAddress(n, s.Pod)
			return ok && held == published.Address.Addr()
		}) {
			return false
		}
	}
	return true
}

func (s PodState) now() metav1.Time { return metav1.NewTime(s.Now.Truncate(time.Second)) }
