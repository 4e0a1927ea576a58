package pod2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// hostNetwork reports a spec that asks for Networks although its pods have no network of
// their own: none of them gets an address.
func (v *view) hostNetwork() string {
	networks := Networks(v.pod2)
	if !v.pod2.Spec.Template.Spec.HostNetwork || len(networks) == 0 {
		return ""
	}
	return "spec.template.spec.hostNetwork is true, so new replicas cannot join Networks and stay unscheduled: " +
		"remove hostNetwork, or remove the Networks " + v.networkNames()
}

func (v *view) networkNotFound() string {
	var all []string
	for _, name := range v.missingNetworks() {
		all = append(all, fmt.Sprintf("Network %s does not exist", name))
	}
	if len(all) == 0 {
		return ""
	}
	return list(all) + ": new replicas stay unscheduled until it is created"
}

// networkTerminating reports a Network that is being deleted, before a replica is lost.
// Until then all replicas are available, so nothing else would report it.
func (v *view) networkTerminating() string {
	var all []string
	for _, n := range v.networks {
		if n.DeletionTimestamp != nil {
			all = append(all, fmt.Sprintf("Network %s is being deleted", n.Name))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return list(all) + ": running replicas keep their addresses, and new ones stay unscheduled until it is deleted and recreated"
}

// waitingForAddresses names the pods that report in their own condition why they wait.
// The others get their addresses shortly, or their Network says why not.
func (v *view) waitingForAddresses() string {
	waiting := false
	said := each(v.unsteady(v.slots), func(_ int, r replica) string {
		if !r.live() || !r.gated {
			return ""
		}
		waiting = true
		if c := attachment.Condition(r.pod, v1.ConditionAddressesBound); c != nil && c.Status == corev1.ConditionFalse && c.Message != "" {
			return r.pod.Name + ": " + shorten.To(c.Message, maxCause)
		}
		return ""
	})
	if said != "" || !waiting {
		return said
	}
	var all []string
	for _, n := range v.networks {
		if c := meta.FindStatusCondition(n.Status.Conditions, v1.ConditionAddressesAvailable); c != nil && c.Status == metav1.ConditionFalse {
			all = append(all, fmt.Sprintf("Network %s: %s", n.Name, shorten.To(c.Message, maxCause)))
		}
	}
	if len(all) > 0 {
		return list(all)
	}
	return "replicas are waiting for their addresses"
}

// keptFromAddress reports a replica that is not updated because its wanted address is in
// use.
func (v *view) keptFromAddress(place int, _ replica) string {
	if place < len(v.keepers) {
		return v.keepers[place]
	}
	return ""
}
