package spec

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// NamesDone describes the remaining work for the DNS names of a Pod2. p is nil if the Pod2 does
// not exist.
//
//   - Each EndpointSlice of the Pod2 belongs to a Service that the Pod2 controls. That Service has
//     the Pod2's label and no ports, and is not being deleted.
//   - Each Network of the spec, and each Network on which a replica still has an address, has such
//     a Service. It is headless and has no selector. Another object may have the name instead.
//   - Each replica with an address on the Network has a current endpoint in an EndpointSlice of
//     that Service, unless another object has the slice's name. The slice has no other endpoint.
//   - The condition DNSPublished is True only if all this holds.
//
// If the Pod2 is being deleted, or is gone, only the first point holds.
func NamesDone(c *Cluster, p *v1.Pod2) string {
	for _, slice := range c.EndpointSlices {
		if why := c.exposed(p, slice); why != "" {
			return why
		}
	}
	if p == nil || p.DeletionTimestamp != nil {
		return ""
	}
	wanted, complete := map[string]string{}, true // the Network, by the name of the Service
	for _, network := range networksOf(p) {
		wanted[p.Name+"-"+network] = network
	}
	for _, pod := range c.Pods {
		for network := range namedAddresses(p, pod) {
			wanted[p.Name+"-"+network] = network
		}
	}
	for name, network := range wanted {
		service := named(c.Services, name)
		why := c.serviceDone(p, network, name, service)
		if why != "" {
			return why
		}
		complete = complete && fit(p, service)
	}
	for _, is := range c.Services {
		if wanted[is.Name] == "" && metav1.IsControlledBy(is, p) && is.DeletionTimestamp == nil {
			return fmt.Sprintf("Service %s is not needed", is.Name)
		}
	}
	for _, slice := range c.EndpointSlices {
		if why := c.sliceDone(p, wanted, slice); why != "" {
			return why
		}
	}
	dns := meta.FindStatusCondition(p.Status.Conditions, v1.ConditionDNSPublished)
	switch {
	case (dns == nil) != (len(wanted) == 0):
		return "the condition DNSPublished is missing, or there is no Network"
	case dns != nil && dns.ObservedGeneration != p.Generation:
		return "the condition DNSPublished is about an earlier spec"
	case dns != nil && dns.Status == metav1.ConditionTrue && !complete:
		return "the condition DNSPublished is True, and a Service is wrong"
	}
	return ""
}

// exposed finds an EndpointSlice of the Pod2 whose Service could send clients to its
// addresses.
func (c *Cluster) exposed(p *v1.Pod2, slice *discoveryv1.EndpointSlice) string {
	service := slice.Labels[discoveryv1.LabelServiceName]
	switch {
	case slice.DeletionTimestamp != nil:
	case p == nil && left(slice):
		return fmt.Sprintf("EndpointSlice %s exists without its Pod2", slice.Name)
	case p == nil || service == "" || !made(p, slice):
	case !fit(p, named(c.Services, service)):
		return fmt.Sprintf("EndpointSlice %s has no Service of its Pod2 without ports", slice.Name)
	}
	return ""
}

// serviceDone checks one Network, and the object that has the name of its Service.
func (c *Cluster) serviceDone(p *v1.Pod2, network, name string, is *corev1.Service) string {
	if is == nil {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return ""
		}
		return fmt.Sprintf("there is no Service %s", name)
	}
	labelled := is.Labels[v1.Pod2Label] == p.Name && is.Labels[v1.NetworkLabel] == network
	orphan := metav1.GetControllerOfNoCopy(is) == nil && labelled
	switch {
	case is.DeletionTimestamp != nil || !orphan && !metav1.IsControlledBy(is, p) || len(validation.IsDNS1123Label(name)) > 0:
		return ""
	case orphan, !labelled, is.Spec.ClusterIP != corev1.ClusterIPNone, len(is.Spec.Selector)+len(is.Spec.Ports) > 0, !is.Spec.PublishNotReadyAddresses:
		return fmt.Sprintf("Service %s must be headless, labelled, controlled by the Pod2, and without selector and ports", name)
	}
	for _, pod := range c.Pods {
		address, has := namedAddresses(p, pod)[network]
		ordinal, _ := ordinals.Parse(p.Name, pod.Name)
		slice := named(c.EndpointSlices, sliceName(name, ordinal, address))
		if has && (slice == nil || metav1.IsControlledBy(slice, p) && slice.DeletionTimestamp == nil && !slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return pointsTo(e, pod, address) })) {
			return fmt.Sprintf("pod %s has no name for %s", pod.Name, address)
		}
	}
	return ""
}

// sliceDone checks that an EndpointSlice of the Pod2 has only addresses of its Service's
// replicas.
func (c *Cluster) sliceDone(p *v1.Pod2, wanted map[string]string, slice *discoveryv1.EndpointSlice) string {
	service := slice.Labels[discoveryv1.LabelServiceName]
	switch {
	case slice.DeletionTimestamp != nil || !made(p, slice):
		return ""
	case left(slice) && slice.Labels[v1.NetworkLabel] == wanted[service] && fit(p, named(c.Services, service)):
		return fmt.Sprintf("EndpointSlice %s has no owner", slice.Name)
	case left(slice):
		return ""
	case wanted[service] == "" || len(slice.Endpoints) == 0 || len(slice.Ports) > 0:
		return fmt.Sprintf("EndpointSlice %s is not needed, or has ports", slice.Name)
	}
	for _, e := range slice.Endpoints {
		known := slices.ContainsFunc(c.Pods, func(pod *corev1.Pod) bool {
			address, has := namedAddresses(p, pod)[wanted[service]]
			ordinal, _ := ordinals.Parse(p.Name, pod.Name)
			return has && pointsTo(e, pod, address) && slice.Name == sliceName(service, ordinal, address)
		})
		if !known {
			return fmt.Sprintf("EndpointSlice %s has %v, which no replica has", slice.Name, e.Addresses)
		}
	}
	return ""
}

// namedAddresses returns the addresses of a pod that need a name, by Network. These are the
// addresses of each live replica, scaled down or not, and of a replica that lost its owner.
func namedAddresses(p *v1.Pod2, pod *corev1.Pod) map[string]netip.Addr {
	_, replica := ordinals.Parse(p.Name, pod.Name)
	ours := metav1.IsControlledBy(pod, p) || metav1.GetControllerOfNoCopy(pod) == nil && pod.Labels[v1.Pod2Label] == p.Name
	if !replica || !ours || len(pod.Name) > validation.DNS1123LabelMaxLength {
		return nil
	}
	all := map[string]netip.Addr{}
	for _, h := range Holds(pod) {
		if a := h.Address; !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() { // no EndpointSlice may have these
			all[h.Network] = a
		}
	}
	return all
}

func pointsTo(e discoveryv1.Endpoint, pod *corev1.Pod, address netip.Addr) bool {
	_, ready := ReadySince(pod)
	return slices.Equal(e.Addresses, []string{address.String()}) && ptr.Deref(e.Hostname, "") == pod.Name && e.TargetRef != nil && e.TargetRef.UID == pod.UID &&
		ptr.Deref(e.Conditions.Ready, false) && ptr.Deref(e.Conditions.Serving, !ready) == ready &&
		ptr.Deref(e.Conditions.Terminating, false) == (pod.DeletionTimestamp != nil) && ptr.Deref(e.NodeName, "") == pod.Spec.NodeName
}

// sliceName returns the EndpointSlice's name: a hundred ordinals of one family share a slice.
func sliceName(service string, ordinal int32, address netip.Addr) string {
	name := service + "-" + strconv.Itoa(int(ordinal/100))
	if address.Is6() {
		name += "-v6"
	}
	return name
}

// fit says whether EndpointSlices of the Pod2 may belong to a Service.
func fit(p *v1.Pod2, is *corev1.Service) bool {
	return is != nil && is.DeletionTimestamp == nil && metav1.IsControlledBy(is, p) && is.Labels[v1.Pod2Label] == p.Name && len(is.Spec.Ports) == 0
}

// left says whether Pod2 made an EndpointSlice that now has no controller.
func left(slice *discoveryv1.EndpointSlice) bool {
	return metav1.GetControllerOfNoCopy(slice) == nil && slice.Labels[discoveryv1.LabelManagedBy] == "pod2-controller"
}

func made(p *v1.Pod2, slice *discoveryv1.EndpointSlice) bool {
	return metav1.IsControlledBy(slice, p) || left(slice) && slice.Labels[v1.Pod2Label] == p.Name
}
