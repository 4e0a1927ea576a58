package view

import (
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
)

// Network is a row of the list of Networks. The numbers are those of its status.
type Network struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	CIDR       string      `json:"cidr"`
	Gateway    string      `json:"gateway,omitempty"`
	Type       string      `json:"type"`
	Capacity   int64       `json:"capacity"`
	Bound      int64       `json:"bound"`
	Reserved   int64       `json:"reserved"`
	Resting    int64       `json:"resting"`
	Available  int64       `json:"available"`
	ReuseDelay int64       `json:"reuseDelaySeconds"`
	Deleting   bool        `json:"deleting,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// Address is an address of a Network that is in use. Free addresses have no record.
type Address struct {
	Namespace string `json:"namespace"`
	Network   string `json:"network"`
	Address   string `json:"address"`
	State     string `json:"state"`
	Pod       string `json:"pod,omitempty"`
	UID       string `json:"uid,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Since     int64  `json:"since"`
}

// OfNetwork returns the record of a Network.
func OfNetwork(n *v1.Network) []Record {
	kind := v1.AttachmentOverlay
	if n.Spec.Attachment != nil && n.Spec.Attachment.Type != "" {
		kind = n.Spec.Attachment.Type
	}
	return one("networks", n, Network{
		Namespace: n.Namespace, Name: n.Name, CIDR: n.Spec.CIDR, Gateway: n.Status.Gateway, Type: string(kind),
		Capacity: n.Status.Capacity, Bound: n.Status.Bound, Reserved: n.Status.Reserved, Resting: n.Status.Resting, Available: n.Status.Available,
		ReuseDelay: int64(network.ReuseDelay(n).Seconds()), Deleting: n.DeletionTimestamp != nil, Conditions: conditions(n.Status.Conditions),
	})
}

// OfAddressBlock returns a record for each of its addresses.
func OfAddressBlock(b *v1.AddressBlock) []Record {
	records := make([]Record, 0, len(b.Spec.Entries))
	for _, e := range b.Spec.Entries {
		owner := ""
		if e.Owner.Kind != "" {
			owner = e.Owner.Kind + "/" + e.Owner.Name
		}
		records = append(records, Record{"addresses/" + b.Namespace + "/" + b.Spec.Network + "/" + e.Address, Address{
			Namespace: b.Namespace, Network: b.Spec.Network, Address: e.Address, State: string(e.State),
			Pod: e.Pod, UID: string(e.PodUID), Owner: owner, Since: e.Since.Unix(),
		}})
	}
	return records
}
