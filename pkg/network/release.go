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
	case !slices.Contains(r.Networks, network):
		return "is kept for " + e.Pod + ", whose owner does not exist or does not ask for the Network: it is released without a request"
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
		v.toRelease = map[string]v1.AddressEntry{}
		for _, asked := range AskedToRelease(v.network) {
			v.toRelease[asked.Address] = asked
		}
	}
	return sameEntry(v.toRelease[e.Address], *e.AddressEntry)
}

// restOf is what becomes of a released entry: nobody has used the address since it was
// reserved, so that it need not rest anew.
func (v *view) restOf(e *entry) v1.AddressState {
	if v.rested(e) {
		return ""
	}
	return v1.AddressResting
}

// AskedToRelease are the entries of the Network's annotation; one that cannot be read asks for
// nothing.
func AskedToRelease(n *v1.Network) (entries []v1.AddressEntry) {
	_ = json.Unmarshal([]byte(n.Annotations[v1.ReleaseAnnotation]), &entries)
	return entries
}
