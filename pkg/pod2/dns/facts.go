package dns

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
)

// Facts have the addresses that pods publish, and the parts of their names. They depend on that
// version of the pod only. So a program that decides again and again reads each version once.
type Facts []*fact

// fact is about one version of a pod.
type fact struct {
	pod *corev1.Pod
	// prefix and ordinal are the parts of the pod's name: web and 0 of web-0. The prefix is "" if the pod can have no
	// DNS name: it is gated or over, its name is too long for a hostname, or has no ordinal.
	prefix     string
	ordinal    int32
	controller *types.UID // nil without one
	// addresses that the pod publishes, in the order of the Networks' names. Those that no
	// Network hands out are left out: a user wrote such an address into the annotation.
	// EndpointSlices refuse them, so one of them would block the write of 99 others.
	addresses []address
}

type address struct {
	network string
	is      netip.Addr
}

// Of returns the facts of pods, in their order, see plan.Again.
func (earlier Facts) Of(pods []*corev1.Pod) Facts { return plan.Again(earlier, pods, factOf) }

// Of returns the pod.
func (f *fact) Of() *corev1.Pod { return f.pod }

func factOf(pod *corev1.Pod) *fact {
	published := attachment.Published(pod)
	f := &fact{pod: pod, addresses: make([]address, 0, len(published))}
	if !attachment.Gated(pod) && !attachment.Over(pod) && len(pod.Name) <= validation.DNS1123LabelMaxLength {
		f.prefix, f.ordinal, _ = ordinals.Split(pod.Name)
	}
	if label := pod.Labels[v1.Pod2Label]; label == f.prefix {
		f.prefix = label // the same text for all replicas, if they share labels as in the controller
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		f.controller = &ref.UID
	}
	for _, network := range slices.Sorted(maps.Keys(published)) {
		a := published[network].Address.Addr()
		if a.IsValid() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() {
			f.addresses = append(f.addresses, address{network, a})
		}
	}
	return f
}

// address returns the address on a Network.
func (f *fact) address(network string) (netip.Addr, bool) {
	for _, a := range f.addresses {
		if a.network == network {
			return a.is, true
		}
	}
	return netip.Addr{}, false
}
