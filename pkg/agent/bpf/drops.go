//go:build linux

package bpf

import (
	"fmt"
	"slices"
)

// Reasons a packet is dropped for, by their number in src/layout.h.
var Reasons = [...]string{1: "stranger", 2: "mac", 3: "ip", 4: "arp", 5: "nd", 6: "protocol", 7: "extension", 8: "truncated",
	9: "multicast", 10: "unknown", 11: "oversized", 12: "vxlan", 13: "injected", 14: "failed", 15: "egress"}

// Meanings of Reasons: each says which packets it counts.
var Meanings = map[string]string{
	"stranger":  "from an interface without an entry in the table of ports, or on a Network that this node does not know",
	"mac":       "with another's MAC address as source",
	"ip":        "with another's IP address as source",
	"arp":       "ARP with another's address",
	"nd":        "advertisements and redirects, and solicitations with another's address",
	"protocol":  "neither IP nor ARP, such as VLAN tags",
	"extension": "IPv6 extension headers that could hide neighbour discovery",
	"truncated": "shorter than its headers",
	"multicast": "to a group or to all, and questions whether the sender's own address is free",
	"unknown":   "for an address that nobody has here, or a node that is not in the table of nodes",
	"oversized": "larger than the Network's MTU",
	"vxlan":     "VXLAN from an address that is not in the table of nodes",
	"injected":  "put onto a port, the gateway or the wire by the node itself",
	"failed":    "the kernel could not rewrite the packet",
	"egress":    "to the outside of a Network without egress",
}

// Drop counts packets that were dropped.
type Drop struct {
	// VNI of the Network; 0 if the packet's was not known.
	VNI int32
	// Interface is the index of the interface that the packet came from, or was sent to by a program of the node.
	Interface uint32
	// Reason is one of Reasons.
	Reason string
}

// Drops since the maps were made. At most 16,384 different ones are counted.
func (m *Maps) Drops() (map[Drop]uint64, error) {
	all := map[Drop]uint64{}
	var key dropKey
	var perCPU []uint64
	entries := m.maps["drops"].Iterate()
	for entries.Next(&key, &perCPU) {
		d := Drop{int32(key.VNI), key.Interface, fmt.Sprint(key.Reason)}
		if int(key.Reason) < len(Reasons) {
			d.Reason = Reasons[key.Reason]
		}
		for _, count := range perCPU {
			all[d] += count
		}
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read the counts of dropped packets: %w", err)
	}
	return all, nil
}

// DeleteDrop forgets a count.
func (p *Programs) DeleteDrop(d Drop) error {
	reason := max(0, slices.Index(Reasons[:], d.Reason))
	return p.del("drops", dropKey{uint32(d.VNI), d.Interface, uint32(reason)}, d)
}
