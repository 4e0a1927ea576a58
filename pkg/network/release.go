package network

import (
	"encoding/json"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// Releasable says why the reservation of an entry stays, whoever asks for its end; "" if
// it may end. A stable address is kept from nobody who has the replica or its pod.
func (r Replicas) Releasable(network string, e v1.AddressEntry, live bool) string {
	switch {
	case e.State != v1.AddressReserved:
		return "is not Reserved but " + string(e.State)
	case live:
		return "is kept for pod " + e.Pod + ", which exists"
	case !r.ScaledAway(network, e):
		return "is kept for " + e.Pod + ", a replica of " + e.Owner.Kind + " " + e.Owner.Name
	}
	return ""
}

// releases says whether somebody asked that the reservation ends, and it may. The request
// has the whole entry as it was when they looked, so that a request which comes late, or
// stays in the Network, does nothing to a later reservation.
func (v *view) releases(e *entry) bool {
	pod := v.pods[e.Pod]
	if v.owners[e.Owner].Releasable(v.name, *e.AddressEntry, pod != nil && !attachment.Over(pod)) != "" {
		return false
	}
	if v.toRelease == nil {
		v.toRelease = []v1.AddressEntry{}
		_ = json.Unmarshal([]byte(v.network.Annotations[v1.ReleaseAnnotation]), &v.toRelease) // what says nothing asks for nothing
	}
	return slices.ContainsFunc(v.toRelease, func(asked v1.AddressEntry) bool { return sameEntry(asked, *e.AddressEntry) })
}
