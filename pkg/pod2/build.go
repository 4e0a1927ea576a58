package pod2

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

var pod2Kind = schema.GroupVersionKind{Group: v1.GroupVersion.Group, Version: v1.GroupVersion.Version, Kind: "Pod2"}

// IsOwner reports whether an owner is a Pod2, of any version; nil is not.
func IsOwner(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.Kind == pod2Kind.Kind && strings.HasPrefix(owner.APIVersion, pod2Kind.Group+"/")
}

// Networks returns the names of the Networks that replicas ask for, in no particular
// order. They are in spec.networks, or if that is empty, in the annotation of the
// template.
func Networks(p *v1.Pod2) []string {
	if len(p.Spec.Networks) == 0 {
		return attachment.RequestedNetworks(p.Spec.Template.Annotations)
	}
	names := make([]string, 0, len(p.Spec.Networks))
	for _, n := range p.Spec.Networks {
		names = append(names, n.Name)
	}
	return names
}

// requests returns the value of the annotation v1.NetworksAnnotation for each replica of
// a content.
type requests struct {
	start    int32
	networks []Network
	// plain is the value for replicas that want no address by name; without networks it
	// is the template's value.
	plain string
	// wanted is the number of replicas that want an address by name.
	wanted int
}

func newRequests(p *v1.Pod2, content Content) requests {
	r := requests{networks: content.Networks, plain: content.Template.Annotations[v1.NetworksAnnotation]}
	if p.Spec.Ordinals != nil {
		r.start = p.Spec.Ordinals.Start
	}
	for _, n := range content.Networks {
		r.wanted = max(r.wanted, len(n.Addresses))
	}
	if len(r.networks) > 0 {
		r.plain = attachment.FormatRequests(r.list(r.start + int32(r.wanted))) //nolint:gosec // a list has at most 1024
	}
	return r
}

// of returns the request of a replica by its ordinal: reserving an ordinal moves no
// address to another replica.
func (r requests) of(ordinal int32) string {
	if int(ordinal-r.start) >= r.wanted {
		return r.plain
	}
	return attachment.FormatRequests(r.list(ordinal))
}

// list returns the requests of a replica, if they are not the template's.
func (r requests) list(ordinal int32) []attachment.Request {
	list, offset := make([]attachment.Request, 0, len(r.networks)), int(ordinal-r.start)
	for _, n := range r.networks {
		request := attachment.Request{Network: n.Name, Interface: n.Interface}
		if offset < len(n.Addresses) {
			// The schema refuses addresses that netip does not parse; the zero value
			// means any.
			request.Address, _ = netip.ParseAddr(string(n.Addresses[offset]))
		}
		list = append(list, request)
	}
	return list
}

// requestsOf returns the requests of replicas that are made from a revision.
func (v *view) requestsOf(from *revision) requests {
	if from == v.revisions.update {
		return v.requests
	}
	return newRequests(v.pod2, from.content)
}

// build makes the pod of a replica from a revision. It shares nothing with the template.
//
//	labels        the Pod2's, overridden by the template's, overridden by the controller's
//	annotations   the template's, the request, and the record of labels from the Pod2; the
//	              template cannot set published addresses
//	gates         the template's, and the addresses gate if there is any request
//	volumes       the template's, overridden by the PVCs
//	hostname      the name; with subdomain <serviceName> that is a DNS name (as for a StatefulSet)
func (v *view) build(place int, from *revision) *corev1.Pod {
	name, ordinal := v.name(place), v.ordinals.At(place)
	template := from.content.Template.DeepCopy()
	requests := v.requestsOf(from)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v.pod2.Namespace, Name: name,
			Labels:          map[string]string{},
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(v.pod2, pod2Kind)},
		},
		Spec: template.Spec,
	}
	given := newGiven(v.pod2, template.Labels)
	maps.Copy(pod.Labels, given.labels)
	maps.Copy(pod.Labels, template.Labels)
	maps.Copy(pod.Labels, map[string]string{
		v1.ManagedLabel:         "true",
		v1.Pod2Label:            v.pod2.Name,
		v1.PodIndexLabel:        strconv.Itoa(int(ordinal)),
		v1.PodTemplateHashLabel: from.hash,
	})

	delete(pod.Annotations, v1.AddressesAnnotation)
	delete(pod.Annotations, v1.Pod2RequestAnnotation)
	delete(pod.Annotations, v1.Pod2LabelsAnnotation)
	if given.record != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.Pod2LabelsAnnotation, given.record)
	}
	if request := requests.of(ordinal); request != "" {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[v1.NetworksAnnotation] = request
		pod.Annotations[v1.Pod2RequestAnnotation] = request
		if !attachment.Gated(pod) {
			pod.Spec.SchedulingGates = append(slices.Clip(pod.Spec.SchedulingGates), corev1.PodSchedulingGate{Name: v1.AddressesGate})
		}
	}

	v.mount(pod, ordinal)

	pod.Spec.Hostname = name
	if from.content.ServiceName != "" {
		pod.Spec.Subdomain = from.content.ServiceName
	}
	return pod
}
