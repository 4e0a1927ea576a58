package dns

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Converged says "" when no write of ours is due, else the first that is. It is
// what "done" means, written apart from the way there:
//
//   - a slice that we made stands beside a Service that the Pod2 controls, which has its
//     label and no ports, and is not being deleted, whatever else is so;
//   - a Pod2 that is being deleted, or is gone, wants nothing else;
//   - for each of its Networks, and each on which a replica publishes an address
//     still, something has the name of its Service, unless nothing can have it, and
//     that is as we make it if it is ours;
//   - nothing that was made for such a Service lacks only its owner reference;
//   - no other Service of ours is there to stay;
//   - each replica that publishes an address on a Network whose Service is ours is,
//     as it is now, in the slice that its ordinal and the family name, or somebody
//     else has the slice's name;
//   - nothing else is in our slices, and no other slice of ours is there to stay;
//   - the status says all this.
func Converged(s State) string {
	if why := exposed(s); why != "" || s.Pod2 == nil || s.Pod2.DeletionTimestamp != nil {
		return why
	}
	v := look(s)
	wanted := map[string]bool{}
	for _, s := range v.services {
		wanted[s.name] = true
		switch {
		case s.problem != nil:
		case s.is == nil:
			return fmt.Sprintf("there is no Service %s", s.name)
		default:
			if reason := serviceDiffers(s.is, v.overlayService(s.network, s.is)); reason != "" {
				return fmt.Sprintf("Service %s differs in %s", s.name, reason)
			}
		}
	}
	for _, is := range s.Services {
		if !wanted[is.Name] && v.removable(is) {
			return fmt.Sprintf("Service %s is of no use", is.Name)
		}
	}
	if why := v.slicesConverged(); why != "" {
		return why
	}
	if status := v.status(); status != nil {
		return "the status would be: " + conditionText(status)
	}
	return ""
}

func exposed(s State) string {
	for _, slice := range s.Slices {
		owner, service := metav1.GetControllerOfNoCopy(slice), slice.Labels[discoveryv1.LabelServiceName]
		left := owner == nil && slice.Labels[discoveryv1.LabelManagedBy] == managedBy
		if slice.DeletionTimestamp != nil {
			continue
		}
		if s.Pod2 == nil {
			if left {
				return fmt.Sprintf("EndpointSlice %s has outlived its Pod2", slice.Name)
			}
			continue
		}
		ours := owner != nil && owner.UID == s.Pod2.UID || left && slice.Labels[v1.Pod2Label] == s.Pod2.Name
		switch {
		case service == "" || !ours:
		case !slices.ContainsFunc(s.Services, func(is *corev1.Service) bool {
			return is.Name == service && is.DeletionTimestamp == nil && metav1.IsControlledBy(is, s.Pod2) && is.Labels[v1.Pod2Label] == s.Pod2.Name && len(is.Spec.Ports) == 0
		}):
			return fmt.Sprintf("EndpointSlice %s has no Service of ours without ports", slice.Name)
		}
	}
	return ""
}

// content is what a slice has to have.
type content struct {
	service   service
	kind      discoveryv1.AddressType
	endpoints []discoveryv1.Endpoint
}

func (v *view) slicesConverged() string {
	expected := map[string]*content{}
	for _, s := range v.services {
		for _, m := range v.members {
			address, ok := m.address(s.network)
			if !ok || s.problem != nil {
				continue
			}
			name := sliceName(s.name, m.ordinal, address)
			if expected[name] == nil {
				expected[name] = &content{service: s, kind: discoveryv1.AddressTypeIPv4}
			}
			if address.Is6() {
				expected[name].kind = discoveryv1.AddressTypeIPv6
			}
			expected[name].endpoints = append(expected[name].endpoints, endpoint(m.pod, address))
		}
	}
	for _, slice := range v.Slices {
		want := expected[slice.Name]
		delete(expected, slice.Name)
		switch {
		case v.orphan(slice):
			return fmt.Sprintf("EndpointSlice %s has no owner reference", slice.Name)
		case !v.made(slice):
		case want == nil || want.kind != slice.AddressType:
			if v.removable(slice) {
				return fmt.Sprintf("EndpointSlice %s is of no use", slice.Name)
			}
		case len(slice.Ports) > 0:
			return fmt.Sprintf("EndpointSlice %s has ports", slice.Name)
		case !equality.Semantic.DeepEqual(slice.Endpoints, want.endpoints):
			return fmt.Sprintf("EndpointSlice %s differs in %s", slice.Name, endpointsDiffer(slice.Endpoints, want.endpoints))
		default:
			for key, value := range v.sliceLabels(want.service) {
				if is, ok := slice.Labels[key]; !ok || is != value {
					return fmt.Sprintf("EndpointSlice %s has another label %s", slice.Name, key)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		return fmt.Sprintf("there is no EndpointSlice %s", name)
	}
	return ""
}
