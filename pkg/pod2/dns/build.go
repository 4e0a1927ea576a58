package dns

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/plan"
)

var pod2Kind = schema.GroupVersionKind{Group: v1.GroupVersion.Group, Version: v1.GroupVersion.Version, Kind: "Pod2"}

const (
	// perSlice is how many ordinals share an EndpointSlice. The API allows 1,000
	// endpoints. Kubernetes' own controller writes 100 by default, and readers of slices
	// are tuned to that.
	perSlice = 100
	// managedBy tells other controllers of EndpointSlices that this controller manages a
	// slice.
	managedBy = "pod2-controller"
	// ownerReference names the field that an orphaned object lacks.
	ownerReference = "owner reference"
)

func sliceName(service string, ordinal int32, address netip.Addr) string {
	name := service + "-" + strconv.Itoa(int(ordinal/perSlice))
	if address.Is6() {
		name += "-v6"
	}
	return name
}

func (v *view) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: v.Pod2.Namespace, Name: name,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(v.Pod2, pod2Kind)},
	}
}

// own makes the Pod2 the controller of an object that has none; other owners stay.
func (v *view) own(o metav1.Object) {
	others := slices.DeleteFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == v.Pod2.UID })
	o.SetOwnerReferences(append(others, *metav1.NewControllerRef(v.Pod2, pod2Kind)))
}

func (v *view) newService(s service) *corev1.Service {
	return v.overlayService(s.network, &corev1.Service{ObjectMeta: v.meta(s.name)})
}

// overlayService returns a copy of a Service with all fields that the controller manages.
// The rest stays unchanged: annotations and further labels may be a user's.
func (v *view) overlayService(network string, current *corev1.Service) *corev1.Service {
	s := current.DeepCopy()
	if !v.ours(s) {
		v.own(s)
	}
	s.Labels = plan.Overlaid(s.Labels, labels(v.Pod2, network))
	if s.Spec.Type != corev1.ServiceTypeClusterIP || s.Spec.ClusterIP != corev1.ClusterIPNone {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeClusterIP, ""
		s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	}
	s.Spec.Selector = nil // otherwise Kubernetes would add its own slices
	s.Spec.Ports = nil    // otherwise an Ingress could forward to the addresses
	s.Spec.PublishNotReadyAddresses = true
	return s
}

// serviceDiffers names the managed fields of a Service that differ, "" if none does.
func serviceDiffers(is, want *corev1.Service) string {
	var differ plan.Differences
	differ.Compare(ownerReference, is.OwnerReferences, want.OwnerReferences)
	differ.Compare("labels", is.Labels, want.Labels)
	differ.Compare("cluster IP", [2]string{string(is.Spec.Type), is.Spec.ClusterIP}, [2]string{string(want.Spec.Type), want.Spec.ClusterIP})
	differ.Compare("selector", is.Spec.Selector, want.Spec.Selector)
	differ.Compare("ports", is.Spec.Ports, want.Spec.Ports)
	differ.Compare("publishNotReadyAddresses", is.Spec.PublishNotReadyAddresses, want.Spec.PublishNotReadyAddresses)
	return differ.String()
}

// slicesOf returns the wanted slices of a Service, by family and ordinal. They share the endpoints
// that are in the same place of the current slice, so nobody may change an endpoint. A slice whose
// endpoints are all right has those of the current slice, which sliceDiffers recognizes.
func (v *view) slicesOf(s service) []*discoveryv1.EndpointSlice {
	type family struct {
		slices  []*discoveryv1.EndpointSlice
		ordinal int32                      // of the last endpoint
		current *discoveryv1.EndpointSlice // with the name of the last slice
	}
	var v4, v6 family
	for _, m := range v.members {
		address, ok := m.address(s.network)
		if !ok {
			continue
		}
		f := &v4
		if address.Is6() {
			f = &v6
		}
		if len(f.slices) == 0 || f.ordinal/perSlice != m.ordinal/perSlice {
			next := v.newSlice(s, sliceName(s.name, m.ordinal, address), address)
			f.slices, f.current = append(f.slices, next), find(v.Slices, next.Name)
		}
		f.ordinal = m.ordinal
		last := f.slices[len(f.slices)-1]
		place := len(last.Endpoints)
		switch {
		case f.current == nil || place >= len(f.current.Endpoints) || !isEndpoint(&f.current.Endpoints[place], m.pod, address):
			last.Endpoints = append(last.Endpoints, endpoint(m.pod, address))
		case place == 0 || sameArray(last.Endpoints, f.current.Endpoints):
			last.Endpoints = f.current.Endpoints[: place+1 : place+1] // append copies it
		default:
			last.Endpoints = append(last.Endpoints, f.current.Endpoints[place])
		}
	}
	return append(v4.slices, v6.slices...)
}

// sameArray reports whether two lists begin at the same place in memory.
func sameArray(a, b []discoveryv1.Endpoint) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }

func (v *view) newSlice(s service, name string, address netip.Addr) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: v.meta(name), AddressType: discoveryv1.AddressTypeIPv4}
	if address.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	slice.Labels = v.sliceLabels(s)
	return slice
}

// sliceLabels includes the label that makes kube-proxies skip the slice: they do not need
// headless Services.
func (v *view) sliceLabels(s service) map[string]string {
	return plan.Overlaid(labels(v.Pod2, s.network), map[string]string{
		discoveryv1.LabelServiceName: s.name,
		discoveryv1.LabelManagedBy:   managedBy,
		corev1.IsHeadlessService:     "",
	})
}

// endpoint returns the endpoint of a replica. Its conditions are those that Kubernetes'
// own controller sets for a Service that publishes not-ready addresses.
func endpoint(pod *corev1.Pod, address netip.Addr) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{address.String()},
		Hostname:  ptr.To(pod.Name),
		Conditions: discoveryv1.EndpointConditions{
			Ready:       ptr.To(true),
			Serving:     ptr.To(attachment.Ready(pod)),
			Terminating: ptr.To(pod.DeletionTimestamp != nil),
		},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if pod.Spec.NodeName != "" {
		e.NodeName = ptr.To(pod.Spec.NodeName)
	}
	return e
}

// isEndpoint reports whether e is endpoint(pod, address). Most endpoints of thousands are, so most
// need not be built anew.
func isEndpoint(e *discoveryv1.Endpoint, pod *corev1.Pod, address netip.Addr) bool {
	var text [len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")]byte
	is := func(b *bool, want bool) bool { return b != nil && *b == want }
	c, ref := &e.Conditions, e.TargetRef
	return len(e.Addresses) == 1 && e.Addresses[0] == string(address.AppendTo(text[:0])) && e.Hostname != nil && *e.Hostname == pod.Name &&
		is(c.Ready, true) && is(c.Serving, attachment.Ready(pod)) && is(c.Terminating, pod.DeletionTimestamp != nil) &&
		ref != nil && *ref == corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID} &&
		ptr.Deref(e.NodeName, "") == pod.Spec.NodeName && (e.NodeName != nil) == (pod.Spec.NodeName != "") &&
		e.DeprecatedTopology == nil && e.Zone == nil && e.Hints == nil
}

// Alike reports whether two versions of a pod have the same names and the same endpoints. Then
// a decision about the later one is the decision about the earlier one.
func Alike(was, is *corev1.Pod) bool {
	return was.UID == is.UID && was.Spec.NodeName == is.Spec.NodeName && attachment.Ready(was) == attachment.Ready(is) &&
		(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) && attachment.Gated(was) == attachment.Gated(is) && attachment.Over(was) == attachment.Over(is) &&
		was.Annotations[v1.AddressesAnnotation] == is.Annotations[v1.AddressesAnnotation] &&
		maps.Equal(was.Labels, is.Labels) && equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
}

// overlaySlice returns a copy of a slice with the managed fields of want. It does not copy the
// endpoints that it replaces.
func overlaySlice(current, want *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s := *current
	s.ObjectMeta = *current.ObjectMeta.DeepCopy()
	s.Labels = plan.Overlaid(s.Labels, want.Labels)
	s.Endpoints, s.Ports = want.Endpoints, nil
	return &s
}

// sliceDiffers names the managed fields of a slice that differ, "" if none does.
func sliceDiffers(is, want *discoveryv1.EndpointSlice) string {
	var differ plan.Differences
	differ.Compare("labels", is.Labels, want.Labels)
	differ.Compare("ports", is.Ports, want.Ports)
	if text := endpointsDiffer(is.Endpoints, want.Endpoints); text != "" {
		differ = append(differ, text)
	}
	return differ.String()
}

// endpointsDiffer returns "+web-1 ~web-2 -web-3" for endpoints that are added, changed
// and removed; it names a few.
func endpointsDiffer(is, want []discoveryv1.Endpoint) string {
	if sameArray(is, want) && len(is) == len(want) || slices.EqualFunc(is, want, sameEndpoint) {
		return ""
	}
	old := map[string]discoveryv1.Endpoint{}
	for _, e := range is {
		old[endpointPod(e)] = e
	}
	var all []string
	for _, e := range want {
		name := endpointPod(e)
		before, known := old[name]
		delete(old, name)
		if !known {
			all = append(all, "+"+name)
		} else if !sameEndpoint(before, e) {
			all = append(all, "~"+name)
		}
	}
	for _, e := range is {
		if _, left := old[endpointPod(e)]; left {
			all = append(all, "-"+endpointPod(e))
		}
	}
	const shown = 4
	if len(all) > shown {
		all = append(all[:shown], "and "+strconv.Itoa(len(all)-shown)+" others")
	}
	if len(all) == 0 {
		return "order"
	}
	return strings.Join(all, " ")
}

// sameEndpoint compares the fields that endpoint sets, without reflection: thousands of endpoints are
// compared each second.
func sameEndpoint(a, b discoveryv1.Endpoint) bool {
	others := func(e discoveryv1.Endpoint) bool {
		return e.DeprecatedTopology != nil || e.Zone != nil || e.Hints != nil
	}
	if others(a) || others(b) {
		return equality.Semantic.DeepEqual(a, b)
	}
	return slices.Equal(a.Addresses, b.Addresses) && ptr.Equal(a.Hostname, b.Hostname) && ptr.Equal(a.NodeName, b.NodeName) && ptr.Equal(a.TargetRef, b.TargetRef) &&
		ptr.Equal(a.Conditions.Ready, b.Conditions.Ready) && ptr.Equal(a.Conditions.Serving, b.Conditions.Serving) && ptr.Equal(a.Conditions.Terminating, b.Conditions.Terminating)
}
