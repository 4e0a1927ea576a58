package view

import (
	"strings"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Holders are the earlier holders of an address, or gaps in the history of a Network, in the order
// of their ends.
type Holders []Holder

// Holder held an address. Without a pod, it is a gap. From is 0 if the controller does not know it.
type Holder struct {
	Pod   string `json:"pod,omitempty"`
	UID   string `json:"uid,omitempty"`
	Node  string `json:"node,omitempty"`
	From  int64  `json:"from,omitempty"`
	Until int64  `json:"until"`
}

// OfAddressHistory returns a record for each address in it, and one with the name "gaps". Its key
// has the number of the AddressHistory, because an address may be in several.
func OfAddressHistory(h *v1.AddressHistory) []Record {
	number := h.Name[strings.LastIndexByte(h.Name, '-')+1:]
	prefix := "holders/" + h.Namespace + "/" + h.Labels[v1.NetworkLabel] + "/" + number + "/"
	var names []string
	of := map[string]Holders{}
	for _, r := range h.Spec.Records {
		name, is := r.Address, Holder{Pod: r.Pod, UID: string(r.PodUID), Node: r.Node, Until: seconds(r.Until)}
		if r.From != nil {
			is.From = seconds(*r.From)
		}
		if r.Gap {
			name = "gaps"
		}
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], is)
	}
	records := make([]Record, 0, len(names))
	for _, name := range names {
		records = append(records, Record{prefix + name, of[name]})
	}
	return records
}
