package network

import (
	"encoding/json"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// Releasable says why the reservation of an entry must stay, even if a user asks to release
// it; "" if it may end. A reservation cannot end while the replica or its pod exists.
func (r Replicas) Releasable(network string, e v1.AddressEntry, live bool) string {
	switch {
	case e.State != v1.AddressReserved:
		return "is not Reserved but " + string(e.State)
	case live:
		return "is kept for pod " + e.Pod + ", which exists"
	case !slices.Contains(r.Networks, network):
		return "is kept for " + e.Pod + ", whose owner does not exist or does not ask for the Network: the controller releases it without a request"
	case !r.ScaledAway(network, e):
		return "is kept for " + e.Pod + ", a replica of " + e.Owner.Kind + " " + e.Owner.Name
	}
	return ""
}

// releases says whether a user asked to end the reservation, and whether that is allowed.
// The request holds the whole entry as the user saw it. So a request that is late, or
// stays in the Network, cannot affect a later reservation.
func (v *view) releases(e *entry) bool {
	pod := v.pods[e.Pod]
	if v.owners[e.Owner].Releasable(v.name, *e.AddressEntry, pod != nil && !attachment.Over(pod)) != "" {
		return false
	}
	if v.toRelease == nil {
		v.toRelease = map[string]v1.AddressEntry{}
		for _, asked := range AskedToRelease(v.network) {
			v.toRelease[asked.Address] = asked
		}
	}
	return sameEntry(v.toRelease[e.Address], *e.AddressEntry)
}

// restOf returns the next state of a released entry. No pod has used the address since it
// was reserved, so it need not rest again.
func (v *view) restOf(e *entry) v1.AddressState {
	if v.rested(e) {
		return ""
	}
	return v1.AddressResting
}

// AskedToRelease returns the entries of the Network's annotation. An unreadable annotation
// asks for nothing.
func AskedToRelease(n *v1.Network) (entries []v1.AddressEntry) {
	_ = json.Unmarshal([]byte(n.Annotations[v1.ReleaseAnnotation]), &entries)
	return entries
}
